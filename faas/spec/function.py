"""Everything that is set about one function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from faas import names
from faas.errors import SettingError
from faas.spec.batching import Batching
from faas.spec.cache import Cache
from faas.spec.checks import choice, policy, whole
from faas.spec.instance import Calls, Resources, Scaling
from faas.spec.selection import Selection
from faas.spec.snapshot import LOAD_MODES, LoadMode, Snapshot
from faas.spec.versions import Versions


@policy
class FunctionSpec:
    """Everything that is set about one function. Made by `inference_function`.

    `include` names files that travel with the code where it is packed, by patterns relative to the folder of its file.
    """

    name: str
    resources: Resources = Resources()
    batching: Batching | None = None
    scaling: Scaling = Scaling()
    calls: Calls = Calls()
    snapshot: Snapshot = Snapshot()
    requirements: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    image: str | None = None
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    volumes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    warmup: tuple[Any, ...] | None = None
    middleware: tuple[Callable[..., Any], ...] = ()
    grad: bool = False
    load: LoadMode = "auto"
    recycle_after: int | None = None
    versions: Versions | None = None
    cache: Cache | None = None
    selection: Selection | None = None

    def __post_init__(self) -> None:
        if not names.is_label(self.name):
            raise SettingError(f"name={self.name!r} is no DNS label; {names.label(self.name)!r} would be one")
        for field, kind in (
            ("resources", Resources),
            ("batching", Batching),
            ("scaling", Scaling),
            ("calls", Calls),
            ("snapshot", Snapshot),
            ("versions", Versions),
            ("cache", Cache),
            ("selection", Selection),
        ):
            value = getattr(self, field)
            optional = type(self).__dataclass_fields__[field].default is None
            if not isinstance(value, kind) and not (value is None and optional):
                raise SettingError(f"{field}={value!r}: must be a {kind.__name__}(...)")
        if self.versions is not None and self.snapshot.mode != "state":
            raise SettingError(
                f"versions={self.versions!r}, snapshot mode {self.snapshot.mode!r}: a version is a frozen state, so "
                'take snapshot="state"'
            )
        self._check_sequences()
        self._check_limits()
        choice(self, "load", LOAD_MODES)
        if self.recycle_after is not None:
            whole(self, "recycle_after", 1)
        self._check_collections()

    def _check_sequences(self) -> None:
        if self.batching is None or self.batching.sequences is None:
            return
        if self.scaling.max_instances > 1:
            raise SettingError(
                f"Batching(sequences=...), Scaling(max_instances={self.scaling.max_instances}): a sequence lives in "
                "one instance, and its next call may reach another; set scaling=Scaling(max_instances=1)"
            )

    def _check_limits(self) -> None:
        """Refuse what a batching promises, waits for or lets in beyond the limits of the calls."""
        batching, calls = self.batching, self.calls
        if batching is None:
            return
        for field in ("wait_ms", "slo_ms"):
            value_ms = getattr(batching, field)
            if value_ms is not None and value_ms > calls.timeout_s * 1000.0:
                raise SettingError(
                    f"Batching({field}={value_ms:g}), Calls(timeout_s={calls.timeout_s:g}): the time for a call is up "
                    f"before; lower {field}, or raise timeout_s"
                )
        for level in range(1, batching.priorities + 1):
            most = batching.queue_policy(level).max_queue
            if most is not None and calls.max_queue is not None and most > calls.max_queue:
                raise SettingError(
                    f"QueuePolicy(max_queue={most}) of level {level}, Calls(max_queue={calls.max_queue}): the queue of "
                    "an instance is full before a level of it is; lower the one, or raise the other"
                )

    def _check_collections(self) -> None:
        for field in ("requirements", "include", "secrets", "middleware"):
            value = getattr(self, field)
            if isinstance(value, str) or not isinstance(value, list | tuple):
                raise SettingError(f"{field}={value!r}: must be a list")
            object.__setattr__(self, field, tuple(value))
        for field in ("env", "volumes"):
            value = getattr(self, field)
            if not isinstance(value, Mapping) or not all(isinstance(x, str) for kv in value.items() for x in kv):
                raise SettingError(f"{field}={value!r}: must map text to text")
        if self.warmup is not None:
            if isinstance(self.warmup, str) or not isinstance(self.warmup, list | tuple):
                raise SettingError(f"warmup={self.warmup!r}: must be a list of example inputs")
            object.__setattr__(self, "warmup", tuple(self.warmup))
