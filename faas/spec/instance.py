"""What an instance gets, how many there are, and the limits of their calls."""

from __future__ import annotations

import re
from typing import Literal, get_args

from faas.errors import SettingError
from faas.quantities import parse_bytes
from faas.spec.checks import choice, number, policy, whole

KeepAliveMode = Literal["fixed", "histogram"]
KEEP_ALIVE_MODES: tuple[KeepAliveMode, ...] = get_args(KeepAliveMode)

_MIN_MEMORY_BYTES = 2**20
_GPU = re.compile(r"[0-9]+|[A-Za-z][^:]*(:[1-9][0-9]*)?")


@policy
class Resources:
    """What one instance gets: GPUs ("1", "L4", "A100:2"; "0" or None), CPU cores, memory as a Kubernetes quantity."""

    gpu: str | None = None
    cpu: float = 1.0
    memory: str = "2Gi"

    def __post_init__(self) -> None:
        number(self, "cpu", 0, above=True)
        if self.memory_bytes < _MIN_MEMORY_BYTES:
            raise SettingError(
                f"Resources(memory={self.memory!r}) is less than any process holds (a number alone is of bytes): write "
                "a size such as '512Mi' or '2Gi'"
            )
        if isinstance(self.gpu, bool) or not _GPU.fullmatch(str(self.gpu or "0")) or self.gpu == "":
            raise SettingError(f"Resources(gpu={self.gpu!r}): write a number ('1'), a kind ('L4') or both ('A100:2')")

    @property
    def num_gpus(self) -> int:
        """How many GPUs an instance holds."""
        number = str(self.gpu or "0").rpartition(":")[2]
        return int(number) if number.isdigit() else 1

    @property
    def memory_bytes(self) -> int:
        """The memory of an instance in bytes."""
        return parse_bytes(self.memory, "Resources.memory")


@policy
class Scaling:
    """How many instances: bounds, spares, and when an idle one goes.

    `target_inputs` and `max_inputs` are concurrent calls an instance should and may hold; None derives them from the
    batching: B and 2B for a largest batch of B; 1 and 2 for a plain function; 70 and 100 for an `async def`.
    `target_rps` scales by calls a second in place of calls at once: so many an instance should have.
    `keep_alive` "fixed" lets an idle function go after its scale-down window; "histogram" learns from its idle times
    for how long to keep it, and when to warm it again ahead of the next call.
    """

    min_instances: int = 0
    max_instances: int = 3
    buffer_instances: int = 0
    scaledown_window_s: float = 60.0
    target_inputs: int | None = None
    max_inputs: int | None = None
    target_rps: float | None = None
    activation_scale: int = 1
    keep_alive: KeepAliveMode = "fixed"

    def __post_init__(self) -> None:
        choice(self, "keep_alive", KEEP_ALIVE_MODES)
        whole(self, "min_instances", 0)
        whole(self, "max_instances", 1)
        whole(self, "buffer_instances", 0)
        number(self, "scaledown_window_s", 0, above=True)
        whole(self, "activation_scale", 1)
        for field in ("target_inputs", "max_inputs"):
            if getattr(self, field) is not None:
                whole(self, field, 1)
        if self.target_rps is not None:
            number(self, "target_rps", 0.01)
            if self.target_inputs is not None:
                raise SettingError(
                    f"Scaling(target_inputs={self.target_inputs}, target_rps={self.target_rps}): "
                    "instances follow calls at once or calls a second; give one of the two"
                )
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
            number(self, field, 0, above=True)
        number(self, "grace_period_s", 0)
        if self.max_queue is not None:
            whole(self, "max_queue", 0)
        parse_bytes(self.max_payload, "Calls.max_payload")

    @property
    def max_payload_bytes(self) -> int:
        """The largest body in bytes."""
        return parse_bytes(self.max_payload, "Calls.max_payload")
