"""What a platform knows of a function: names and numbers, no code."""

from __future__ import annotations

import msgspec

from faas.function import Function
from faas.spec import KeepAliveMode


class EndpointRecord(msgspec.Struct, frozen=True):
    """One public path of a function. `raw` says that it takes the body's bytes as they are."""

    path: str
    raw: bool
    streams: bool


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A function as a platform needs to know it: names and numbers, no code.

    `is_versioned` tells whether it asks for versions itself, and `versions_source` where it says that they are.
    """

    name: str
    target: str
    module: str
    endpoints: tuple[EndpointRecord, ...]
    batched: bool
    target_inputs: int
    max_inputs: int
    max_queue: int
    min_instances: int
    max_instances: int
    buffer_instances: int
    activation_scale: int
    scaledown_window_s: float
    timeout_s: float
    startup_timeout_s: float
    grace_period_s: float
    cpu: float
    memory_bytes: int
    env: dict[str, str]
    keep_alive: KeepAliveMode = "fixed"
    target_rps: float | None = None
    num_gpus: int = 0
    is_versioned: bool = False
    versions_source: str | None = None

    @classmethod
    def of(cls, function: Function, target: str) -> Description:
        """Describe `function`, which `target` names."""
        spec, limits = function.spec, function.limits
        endpoints = tuple(
            EndpointRecord(e.path, e.signature.raw is not None, e.signature.streams) for e in function.endpoints
        )
        return cls(
            name=function.name,
            target=target,
            module=function.__module__,
            endpoints=endpoints,
            batched=spec.batching is not None,
            target_inputs=limits.target_inputs,
            max_inputs=limits.max_inputs,
            max_queue=limits.max_queue,
            min_instances=spec.scaling.min_instances,
            max_instances=spec.scaling.max_instances,
            buffer_instances=spec.scaling.buffer_instances,
            activation_scale=spec.scaling.activation_scale,
            scaledown_window_s=spec.scaling.scaledown_window_s,
            timeout_s=spec.calls.timeout_s,
            startup_timeout_s=spec.calls.startup_timeout_s,
            grace_period_s=spec.calls.grace_period_s,
            cpu=spec.resources.cpu,
            memory_bytes=spec.resources.memory_bytes,
            env=dict(spec.env),
            keep_alive=spec.scaling.keep_alive,
            target_rps=spec.scaling.target_rps,
            num_gpus=spec.resources.num_gpus,
            is_versioned=spec.versions is not None,
            versions_source=spec.versions.source if spec.versions is not None else None,
        )
