"""The objects of the stand-in and their history. Used from one event loop, so nothing here locks."""

import asyncio
import copy
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .fields import Owners

Document = dict[str, Any]
Key = tuple[str, str, str]  # plural, namespace ("" for cluster-wide objects), name


@dataclass
class Event:
    version: int
    kind: str
    plural: str
    object: Document


@dataclass
class Store:
    """All objects. Each write has the next resource version; `history` is what watches are served from."""

    objects: dict[Key, Document] = field(default_factory=dict)
    owners: dict[Key, Owners] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    version: int = 100
    oldest: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _uids: Any = field(default_factory=lambda: itertools.count(1))

    def listed(self, plural: str, namespace: str | None) -> list[Document]:
        keys = sorted(key for key in self.objects if key[0] == plural and namespace in (None, key[1]))
        return [copy.deepcopy(self.objects[key]) for key in keys]

    def get(self, plural: str, namespace: str, name: str) -> Document | None:
        found = self.objects.get((plural, namespace, name))
        return None if found is None else copy.deepcopy(found)

    def put(self, plural: str, document: Document) -> Document:
        """Write an object, whole. A new one gets a uid, a date and generation 1; a changed `spec` the next one."""
        document, metadata = copy.deepcopy(document), document["metadata"]
        key = (plural, metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        metadata = document["metadata"]
        if before is None:
            metadata["uid"] = f"uid-{next(self._uids)}"
            metadata["creationTimestamp"] = now()
            metadata["generation"] = 1
        else:
            for kept in ("uid", "creationTimestamp"):
                metadata[kept] = before["metadata"][kept]
            changed = document.get("spec") != before.get("spec")
            metadata["generation"] = before["metadata"]["generation"] + changed
        self._record("ADDED" if before is None else "MODIFIED", plural, document)
        self.objects[key] = document
        return copy.deepcopy(document)

    def remove(self, plural: str, namespace: str, name: str) -> None:
        key = (plural, namespace, name)
        document = self.objects.pop(key)
        self.owners.pop(key, None)
        self._record("DELETED", plural, document)

    def expire(self) -> None:
        """Forget all history: no watch can start from before now."""
        self.oldest = self.version
        self.history.clear()

    async def changed(self, timeout_s: float | None = None) -> None:
        """Return at the next write, or after `timeout_s`."""
        waiting = self._changed
        try:
            await asyncio.wait_for(waiting.wait(), timeout_s)
        except TimeoutError:
            return

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _record(self, kind: str, plural: str, document: Document) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Event(self.version, kind, plural, copy.deepcopy(document)))
        self.wake()


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def matches(document: Document, label_selector: str, field_selector: str) -> bool:
    """Selectors of equality, and of presence, as far as they are used here."""
    labels = document["metadata"].get("labels") or {}
    for part in filter(None, label_selector.split(",")):
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    for part in filter(None, field_selector.split(",")):
        key, _, value = part.partition("=")
        assert key in ("metadata.name", "reason", "involvedObject.name"), f"the stand-in knows no field selector {key}"
        outer, _, inner = key.rpartition(".")
        if (document.get(outer, {}) if outer else document).get(inner) != value:
            return False
    return True
