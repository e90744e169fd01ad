"""The settings of a function: small frozen policies, validated when made.

An unknown keyword is refused with the nearest right one; so is a value out of range, and a contradiction between two
values. Defaults and their reasons stand in `docs/settings.md`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, dataclass_transform, get_args

from faas import names
from faas.errors import SettingError
from faas.quantities import parse_bytes

_T = TypeVar("_T")

LoadMode = Literal["auto", "map", "read", "direct"]
LOAD_MODES: tuple[LoadMode, ...] = get_args(LoadMode)
KeepAliveMode = Literal["fixed", "histogram"]
KEEP_ALIVE_MODES: tuple[KeepAliveMode, ...] = get_args(KeepAliveMode)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def policy(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, keyword-only dataclass that names the nearest right keyword when given a wrong one."""
    made = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    known = [field.name for field in dataclasses.fields(made)]  # type: ignore[arg-type]
    generated = made.__init__

    def __init__(self: object, *args: object, **values: object) -> None:  # noqa: N807
        if args:
            raise SettingError(f"{cls.__name__} takes keywords only: {', '.join(known)}")
        refuse_unknown(cls.__name__, values, known)
        generated(self, **values)

    made.__init__ = __init__  # type: ignore[method-assign]
    return made


def refuse_unknown(what: str, given: Mapping[str, object], known: list[str]) -> None:
    """Raise SettingError for the first key of `given` that is not in `known`."""
    for key in given:
        if key not in known:
            raise SettingError(
                f"{what} has no setting {key!r}{names.suggestion(key, known)}; it has: {', '.join(known)}"
            )


def _whole(owner: object, field: str, low: int, high: int | None = None) -> None:
    value = getattr(owner, field)
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        span = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be a whole number {span}")


def _number(owner: object, field: str, low: float, *, above: bool = False) -> None:
    value = getattr(owner, field)
    numeric = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not numeric or value < low or (above and value == low):
        bound = f"above {low:g}" if above else f"of at least {low:g}"
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be a finite number {bound}")


def _choice(owner: object, field: str, choices: tuple[str, ...]) -> None:
    value = getattr(owner, field)
    if value not in choices:
        near = names.suggestion(str(value), choices)
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be one of {', '.join(choices)}{near}")


@policy
class Resources:
    """What one instance gets: GPUs ("1", "L4", "A100:2" or None), CPU cores, memory as a Kubernetes quantity."""

    gpu: str | None = None
    cpu: float = 1.0
    memory: str = "2Gi"

    def __post_init__(self) -> None:
        _number(self, "cpu", 0, above=True)
        parse_bytes(self.memory, "Resources.memory")
        if self.gpu is not None:
            kind, _, count = str(self.gpu).rpartition(":")
            if isinstance(self.gpu, bool) or not (count if kind else str(self.gpu)).strip() or self.num_gpus < 1:
                raise SettingError(
                    f"Resources(gpu={self.gpu!r}): write a number ('1'), a kind ('L4') or both ('A100:2')"
                )

    @property
    def num_gpus(self) -> int:
        """How many GPUs an instance holds."""
        if self.gpu is None:
            return 0
        _, colon, tail = str(self.gpu).rpartition(":")
        if tail.isdigit():
            return int(tail)
        return 0 if colon or tail.startswith(("-", "+", ".")) or _is_number(tail) else 1

    @property
    def memory_bytes(self) -> int:
        """The memory of an instance in bytes."""
        return parse_bytes(self.memory, "Resources.memory")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@policy
class Batching:
    """How calls are joined into one: at most `max_batch_size` items, gathered for at most `wait_ms`.

    `slo_ms` gives each item a deadline. `idle` says what an idle executor does: "adaptive" gathers only while it pays,
    "now" never gathers, "wait" always does. `on_item_error` "isolate" re-runs halves of a batch that raised so that
    only the bad item fails; "fail_batch" fails them all. `allowed_batch_sizes` pads a batch up with copies of its last
    item.
    `priorities` is the number of levels; 1 is the highest.
    """

    max_batch_size: int = 32
    wait_ms: float = 5.0
    slo_ms: float | None = None
    idle: Literal["adaptive", "now", "wait"] = "adaptive"
    on_item_error: Literal["isolate", "fail_batch"] = "isolate"
    allowed_batch_sizes: tuple[int, ...] | None = None
    priorities: int = 1

    def __post_init__(self) -> None:
        _whole(self, "max_batch_size", 1, 65_536)
        _number(self, "wait_ms", 0)
        if self.slo_ms is not None:
            _number(self, "slo_ms", 0, above=True)
            if self.wait_ms >= self.slo_ms:
                raise SettingError(
                    f"Batching(wait_ms={self.wait_ms:g}, slo_ms={self.slo_ms:g}): the wait alone would use up the "
                    "whole latency objective; lower wait_ms"
                )
        _choice(self, "idle", ("adaptive", "now", "wait"))
        _choice(self, "on_item_error", ("isolate", "fail_batch"))
        _whole(self, "priorities", 1, 100)
        if self.allowed_batch_sizes is not None:
            self._check_allowed(tuple(self.allowed_batch_sizes))

    def _check_allowed(self, sizes: tuple[int, ...]) -> None:
        rising = all(isinstance(a, int) and a > 0 for a in sizes) and list(sizes) == sorted(set(sizes))
        if not sizes or not rising or sizes[-1] != self.max_batch_size:
            raise SettingError(
                f"Batching(allowed_batch_sizes={sizes!r}): must rise, and end with max_batch_size={self.max_batch_size}"
            )
        object.__setattr__(self, "allowed_batch_sizes", sizes)


@policy
class Scaling:
    """How many instances: bounds, spares, and when an idle one goes.

    `target_inputs` and `max_inputs` are concurrent calls an instance should and may hold; None derives them from the
    batching: B and 2B for a largest batch of B; 1 and 2 for a plain function; 70 and 100 for an `async def`.
    `keep_alive` "fixed" lets an idle function go after its scale-down window; "histogram" learns from its idle times
    for how long to keep it, and when to warm it again ahead of the next call.
    """

    min_instances: int = 0
    max_instances: int = 3
    buffer_instances: int = 0
    scaledown_window_s: float = 60.0
    target_inputs: int | None = None
    max_inputs: int | None = None
    activation_scale: int = 1
    keep_alive: KeepAliveMode = "fixed"

    def __post_init__(self) -> None:
        _choice(self, "keep_alive", KEEP_ALIVE_MODES)
        _whole(self, "min_instances", 0)
        _whole(self, "max_instances", 1)
        _whole(self, "buffer_instances", 0)
        _number(self, "scaledown_window_s", 0, above=True)
        _whole(self, "activation_scale", 1)
        for field in ("target_inputs", "max_inputs"):
            if getattr(self, field) is not None:
                _whole(self, field, 1)
        if self.min_instances > self.max_instances:
            raise SettingError(
                f"Scaling(min_instances={self.min_instances}, max_instances={self.max_instances}): "
                "the least is more than the most"
            )
        if self.target_inputs and self.max_inputs and self.target_inputs > self.max_inputs:
            raise SettingError(
                f"Scaling(target_inputs={self.target_inputs}, max_inputs={self.max_inputs}): "
                "an instance cannot aim at more than it may hold"
            )
        if self.activation_scale > self.max_instances:
            raise SettingError(
                f"Scaling(activation_scale={self.activation_scale}, max_instances={self.max_instances}): "
                "waking cannot start more instances than there may be"
            )


@policy
class Calls:
    """The limits of a call: time, queue and body.

    `max_queue` None is ten times `max_inputs`. `max_payload` is a Kubernetes quantity.
    """

    timeout_s: float = 60.0
    startup_timeout_s: float = 300.0
    grace_period_s: float = 30.0
    max_queue: int | None = None
    max_payload: str = "32Mi"

    def __post_init__(self) -> None:
        for field in ("timeout_s", "startup_timeout_s"):
            _number(self, field, 0, above=True)
        _number(self, "grace_period_s", 0)
        if self.max_queue is not None:
            _whole(self, "max_queue", 0)
        parse_bytes(self.max_payload, "Calls.max_payload")

    @property
    def max_payload_bytes(self) -> int:
        """The largest body in bytes."""
        return parse_bytes(self.max_payload, "Calls.max_payload")


@policy
class Snapshot:
    """What is kept of `setup()`: "state" the whole handler, "weights" its tensors, "off" nothing; and where.

    `uri`, as s3://bucket/prefix/NAME, is the snapshot of instances that have none at hand.

    With "weights" each instance runs `setup()`, and its tensors are then held once for all instances.

    `export` "onnx" keeps torch modules in a form that is run without torch; "aoti" keeps them compiled.
    """

    mode: Literal["state", "weights", "off"] = "state"
    uri: str | None = None
    export: Literal["onnx", "aoti"] | None = None

    def __post_init__(self) -> None:
        _choice(self, "mode", ("state", "weights", "off"))
        if self.uri is not None and not self.uri.startswith("s3://"):
            raise SettingError(f"Snapshot(uri={self.uri!r}): must be s3://bucket/prefix/NAME")
        if self.export is not None:
            _choice(self, "export", ("onnx", "aoti"))
            if self.mode == "weights":
                raise SettingError(
                    f'Snapshot(mode="weights", export={self.export!r}): setup() makes modules anew in each instance; '
                    'take mode="state"'
                )


@policy
class FunctionSpec:
    """Everything that is set about one function. Made by `inference_function`."""

    name: str
    resources: Resources = Resources()
    batching: Batching | None = None
    scaling: Scaling = Scaling()
    calls: Calls = Calls()
    snapshot: Snapshot = Snapshot()
    requirements: tuple[str, ...] = ()
    image: str | None = None
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    volumes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    warmup: tuple[Any, ...] | None = None
    middleware: tuple[Callable[..., Any], ...] = ()
    grad: bool = False
    load: LoadMode = "auto"
    recycle_after: int | None = None

    def __post_init__(self) -> None:
        if not names.is_label(self.name):
            raise SettingError(f"name={self.name!r} is no DNS label; {names.label(self.name)!r} would be one")
        for field, kind in (
            ("resources", Resources),
            ("batching", Batching),
            ("scaling", Scaling),
            ("calls", Calls),
            ("snapshot", Snapshot),
        ):
            value = getattr(self, field)
            if not isinstance(value, kind) and not (field == "batching" and value is None):
                raise SettingError(f"{field}={value!r}: must be a {kind.__name__}(...)")
        _choice(self, "load", LOAD_MODES)
        if self.recycle_after is not None:
            _whole(self, "recycle_after", 1)
        self._check_collections()

    def _check_collections(self) -> None:
        for field in ("requirements", "secrets", "middleware"):
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
