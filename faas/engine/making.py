"""The engine for one endpoint: the inmost one, and around it what the batching asks for."""

from __future__ import annotations

from collections.abc import Callable

from faas.clock import Clock, monotonic
from faas.engine.batch import Shape
from faas.engine.batcher import Batcher
from faas.engine.direct import Direct
from faas.engine.engine import Engine
from faas.engine.executor import Executor, OnLoop, OnThread
from faas.engine.latency_model import LatencyModel
from faas.engine.levels import Levels
from faas.engine.observer import Observer
from faas.engine.one_by_one import OneByOne, suits
from faas.engine.policy import Rules
from faas.engine.thread import Lease, ModelThread, Right
from faas.engine.work import Work
from faas.messages import Call
from faas.spec import Batching

MakeLatency = Callable[[str, Callable[[int], int]], LatencyModel]
"""Makes the latency model of a batcher, given which of its engine's it is and what sizes are padded up to."""

Limit = Callable[[Right, Callable[[], bool]], Right]
"""Makes the right to run batches at a place one that takes units of resources, too; see `Limiter.limited`."""


def make_engine(
    work: Work,
    *,
    batching: Batching | None,
    max_inputs: int,
    max_queue: int,
    thread: ModelThread,
    clock: Clock = monotonic,
    observer: Observer | None = None,
    batchers: list[Batcher] | None = None,
    make_latency: MakeLatency | None = None,
    limit: Limit | None = None,
) -> Engine:
    """Return the engine for one endpoint.

    `max_inputs` bounds what an `async def` without batching computes at once; everything else computes one batch at a
    time, or as many as the batching has instances. `max_queue` bounds what waits beyond that. The batchers that are in
    it are added to `batchers`. `make_latency` makes the latency models of those that promise anything. `limit` is
    there where batches need units of resources.

    Raises:
        ValueError: `work` is batched and there is no batching, or the other way round.
    """
    if work.batched != (batching is not None):
        raise ValueError(f"{work.title} is {'' if work.batched else 'not '}batched, but batching={batching!r}")
    if work.on_loop and batching is None:
        return Direct(work, max_inputs, max_queue, clock=clock)
    rules, levels, shape = Rules.of(batching), Levels.of(batching), Shape.of(batching)
    kind = OneByOne if suits(rules, levels) else Batcher
    make_executors = _executors(
        work, shape, thread, num_places=1 if batching is None else batching.instances, clock=clock
    )

    def make_inmost(label: str = "") -> Batcher:
        executors, latency = make_executors(), None
        if batching is not None and batching.slo_ms is not None:
            latency = LatencyModel(shape.padded) if make_latency is None else make_latency(label, shape.padded)
        made = kind(
            executors,
            rules,
            max_queue,
            levels=levels,
            form=None if work.form.joins_all else work.form.key,
            latency=latency,
            clock=clock,
            observer=observer,
        )
        if limit is not None:
            for executor in executors:
                executor.lease = limit(executor.lease, lambda: made.num_queued > 0)
        if batchers is not None:
            batchers.append(made)
        return made

    if batching is None:
        return make_inmost()
    return _wrapped(make_inmost, work, batching, max_queue=max_queue, clock=clock)


def _executors(
    work: Work, shape: Shape, thread: ModelThread, *, num_places: int, clock: Clock
) -> Callable[[], list[Executor]]:
    """Return what gives an inmost engine its executors, one for each place; all such engines share the places."""
    if not work.on_loop:
        return lambda: [OnThread(work, shape, one, clock) for one in thread.team(num_places)]
    leases = [Lease() for _ in range(num_places)]
    return lambda: [OnLoop(work, shape, clock, lease) for lease in leases]


def _wrapped(
    make_inmost: Callable[[str], Batcher], work: Work, batching: Batching, *, max_queue: int, clock: Clock
) -> Engine:
    """Return the engine of a batching: what it asks for stands around the inmost one, and is imported for it alone."""
    most = max_queue + batching.instances * batching.max_batch_size
    if batching.buckets:
        from faas.engine.bucketed import Bucketed
        from faas.engine.ragged import Ragged

        assert isinstance(work.form, Ragged)
        engine: Engine = Bucketed({bucket: make_inmost(str(bucket)) for bucket in batching.buckets}, work.form, most)
    else:
        engine = inmost = make_inmost("")
    if batching.rows:
        from faas.engine.rows import Rows
        from faas.engine.splitting import Splitting

        assert isinstance(work.form, Rows)
        levels = Levels.of(batching)

        def room(call: Call) -> float:
            return min(most, levels.most(levels.of_call(call)))

        engine = Splitting(engine, work.form, lambda: inmost.max_batch_size, room)
    if batching.preserve_order:
        from faas.engine.ordered import Ordered

        engine = Ordered(engine, clock=clock)
    if batching.sequences is not None:
        from faas.engine.sequenced import Sequenced
        from faas.engine.sequences import Sequences

        num_slots = batching.sequences.num_slots or batching.max_batch_size
        engine = Sequenced(engine, Sequences(num_slots, batching.sequences.idle_s), max_queue, clock=clock)
    return engine
