"""One look at the pins of a store, and what follows: fetched is what lacks, removed what was used the longest ago."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from faas.node_cache.choosing import Files, choose, lacking_bytes
from faas.node_cache.counts import PIN_STATES, Counts
from snapshot import LocalStore, Manifest, SnapshotError
from snapshot.collect import collect, note_uses
from snapshot.pins import Pins
from snapshot.s3_store import S3Store

T = TypeVar("T")
Tell = Callable[[Collection[str]], None]
"""Is told the short digests of all that the node holds."""


class Rounds:
    """The rounds of one node. `tell` may raise what it likes: it is said, and tried again with the next round."""

    def __init__(
        self, address: str, into: LocalStore, budget_bytes: int, *, tell: Tell, say: Callable[[str], None]
    ) -> None:
        self._store = S3Store(address)
        self._pins = Pins(address)
        self._into = into
        self._budget_bytes = budget_bytes
        self._tell = tell
        self._say = say
        self._manifests: dict[tuple[str, str], Manifest] = {}
        self._said: set[str] = set()
        self._failed = False
        self.counts = Counts(budget_bytes)
        self.has_looked = False
        """Whether one round has seen the pins."""

    def once(self) -> None:
        """Do what is to be done. Raises nothing for what the store or the cluster say."""
        self._failed = False
        pins = self._try("the pins cannot be read", self._pins.read)
        if pins is not None:
            self._keep(pins)
            self.has_looked = True
        self._try("the node cannot be labelled", lambda: self._tell([short for _, short in self._held()]))
        if self._failed:
            self.counts.failures.inc()
        else:
            self._said.clear()

    def _keep(self, pins: Mapping[str, str]) -> None:
        note_uses(self._into)
        manifests = {name: found for name, digest in pins.items() if (found := self._manifest(name, digest))}
        self._manifests = {(name, one.digest): one for name, one in manifests.items()}
        held = self._held()
        there = [name for name, one in manifests.items() if (name, one.short_digest) in held]
        choice = choose({name: _files(one) for name, one in manifests.items()}, there, self._budget_bytes)
        for name in choice.too_large:
            self._complain(f"{name} is pinned, and there is no room for it in {self._budget_bytes} bytes")
        kept = {name: pins[name] for name in choice.kept}
        for name in choice.kept:
            if name not in there:
                self._fetch(name, manifests[name], kept)
        self._collect(self._budget_bytes, kept)
        held = self._held()
        num_ready = sum((name, manifests[name].short_digest) in held for name in kept)
        numbers = num_ready, len(kept) - num_ready, len(choice.too_large), len(pins) - len(manifests)
        for state, number in zip(PIN_STATES, numbers, strict=True):
            self.counts.pins.labels(state).set(number)

    def _manifest(self, name: str, digest: str) -> Manifest | None:
        known = self._manifests.get((name, digest))
        if known is not None:
            return known
        found = self._try(f"{name} is pinned, and cannot be had", lambda: self._store.locate(name, digest))
        return None if found is None else found[1]

    def _fetch(self, name: str, manifest: Manifest, kept: Mapping[str, str]) -> None:
        files = _files(manifest)
        blobs = self._into.blobs
        lacking = lacking_bytes(files, [digest for digest in files if blobs.find(digest) is not None])
        self._collect(self._budget_bytes - lacking, kept)

        def fetch() -> None:
            with self._store.pull(name, manifest.digest, into=self._into) as pulling:
                pulling.finish()
            self.counts.pulls.inc()
            self.counts.pulled_bytes.inc(lacking)
            self._say(f"{name}@{manifest.short_digest} is here")

        self._try(f"{name} cannot be fetched", fetch)

    def _collect(self, budget_bytes: int, kept: Mapping[str, str]) -> None:
        done = collect(self._into, max(0, budget_bytes), pinned=kept)
        gone = [one for one, _ in done.going if one.kind == "snapshot"]
        for one in gone:
            self._say(f"{one.name}@{one.digest} has gone")
        self.counts.evicted.inc(len(gone))
        self.counts.held_bytes.set(done.after_bytes)
        self.counts.num_held.set(len(self._held()))

    def _held(self) -> set[tuple[str, str]]:
        return {(name, one.short_digest) for name in self._into.names() for one in self._into.history(name)}

    def _try(self, what: str, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except (SnapshotError, OSError) as error:
            self._complain(f"{what}: {error}")
            return None

    def _complain(self, text: str) -> None:
        """Say what is wrong once, until a round in which nothing is."""
        self._failed = True
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _files(manifest: Manifest) -> Files:
    return {record.digest: record.num_bytes for record in manifest.all_files}
