"""The one place where the engine of an endpoint is put together, from what its function asks for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from faas import cacheable
from faas.clock import Clock
from faas.engine.batcher import Batcher
from faas.engine.engine import Engine
from faas.engine.forms import work_of
from faas.engine.making import make_engine
from faas.engine.observer import Observer
from faas.engine.thread import ModelThread
from faas.function import Endpoint, Function
from faas.handler import Handler

if TYPE_CHECKING:
    from faas.engine.cached import Computation
    from faas.engine.clock_cache import ClockCache
    from faas.engine.limiter import Limiter
    from faas.engine.selection.assembly import Selector
    from faas.times import Times


class Shared(msgspec.Struct, frozen=True):
    """What all engines of an instance share: those of its endpoints, and of each version of its state.

    `cache` is there where answers are kept, `selector` where there are variants, `times` where something is promised,
    and `limiter` where batches need units of resources.
    """

    function: Function
    thread: ModelThread
    clock: Clock
    observer: Observer | None = None
    cache: ClockCache[Computation] | None = None
    selector: Selector | None = None
    times: Times | None = None
    limiter: Limiter | None = None

    @classmethod
    def of(cls, function: Function, thread: ModelThread, clock: Clock, observer: Observer | None = None) -> Shared:
        """Return what the engines of one instance of `function` share. What it does not ask for is not imported."""
        spec = function.spec
        cache: ClockCache[Computation] | None = None
        selector: Selector | None = None
        if spec.cache is not None:
            from faas.engine.clock_cache import ClockCache

            cache = ClockCache(spec.cache.num_bytes)
        if spec.selection is not None:
            from faas.engine.selection.assembly import Selector

            variants = next(each.variants for each in function.endpoints if each.variants)
            selector = Selector(function, spec.selection, variants, clock)
        times: Times | None = None
        if spec.batching is not None and spec.batching.slo_ms is not None:
            from faas.times import Times

            times = Times(function)
        limiter: Limiter | None = None
        if spec.batching is not None and spec.batching.rate_limit is not None:
            from faas.engine.limiter import Limiter

            limiter = Limiter(spec.batching)
        return cls(function, thread, clock, observer, cache, selector, times, limiter)


def assemble(handler: Handler, endpoint: Endpoint, shared: Shared, *, version: str) -> Engine:
    """Return the engine that answers at `endpoint` with the state that `handler` has, which is called `version`.

    What a function does not ask for is not there: each engine around the inmost one is put around it here.
    """
    if shared.selector is None or not endpoint.variants:
        return _kept(_computed(handler, endpoint, shared, []), endpoint, shared, version)
    from faas.engine.selection.several import Candidate

    candidates, batchers = [], list[Batcher]()
    for each in endpoint.each:
        if each.method in shared.selector.names:
            engine = _kept(_computed(handler, each, shared, batchers), each, shared, version)
            candidates.append(Candidate(each.method, engine))
    return shared.selector.engine(candidates, batchers)


def _computed(handler: Handler, endpoint: Endpoint, shared: Shared, batchers: list[Batcher]) -> Engine:
    """Return the engine that calls the handler; the batchers in it are added to `batchers`."""
    function, times, limiter = shared.function, shared.times, shared.limiter
    return make_engine(
        work_of(handler, endpoint),
        batching=function.spec.batching,
        max_inputs=function.limits.max_inputs,
        max_queue=function.limits.max_queue,
        thread=shared.thread,
        clock=shared.clock,
        observer=shared.observer,
        batchers=batchers,
        make_latency=None if times is None else partial(times.model, f"{endpoint.path} {endpoint.method}"),
        limit=None if limiter is None else partial(limiter.limited, endpoint.method),
    )


def _kept(engine: Engine, endpoint: Endpoint, shared: Shared, version: str) -> Engine:
    """Return an engine that keeps the answers of `engine`, where the function wants that and it can be done."""
    if shared.cache is None or cacheable.reason_against(endpoint.signature) is not None:
        return engine
    from faas.engine.cached import Cached

    return Cached(
        engine, shared.cache, (shared.function.name, version, endpoint.path, endpoint.method), clock=shared.clock
    )
