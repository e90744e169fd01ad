"""The one place where the engine of an endpoint is put together, from what its function asks for."""

from __future__ import annotations

from dataclasses import dataclass

from faas.clock import Clock
from faas.engine.engine import Engine, make_engine
from faas.engine.forms import work_of
from faas.engine.observer import Observer
from faas.engine.thread import ModelThread
from faas.function import Endpoint, Function
from faas.handler import Handler


@dataclass(frozen=True)
class Shared:
    """What all engines of an instance share: those of its endpoints, and of each version of its state."""

    function: Function
    thread: ModelThread
    clock: Clock
    observer: Observer | None = None


def assemble(handler: Handler, endpoint: Endpoint, shared: Shared, *, version: str) -> Engine:
    """Return the engine that answers at `endpoint` with the state that `handler` has, which is called `version`.

    What a function does not ask for is not there: each engine around the inmost one is put around it here.
    """
    function = shared.function
    return make_engine(
        work_of(handler, endpoint),
        batching=function.spec.batching,
        max_inputs=function.limits.max_inputs,
        max_queue=function.limits.max_queue,
        thread=shared.thread,
        clock=shared.clock,
        observer=shared.observer,
    )
