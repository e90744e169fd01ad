"""The open and the closed loop: one process's share of a run, until it is done or stopped."""

import asyncio
import math
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import islice, repeat, takewhile
from time import monotonic, thread_time
from typing import Any

from loadgen.client import Client
from loadgen.pacer import Pacer
from loadgen.plan import ClosedLoop, OpenLoop, Plan, planned_share, share_of
from loadgen.recorder import Recorder

LEAD_S = 0.05  # from the order to start until the start: it has to reach every process, and they prepare


async def drive(plan: Plan, rank: int, start_at: float, stop: asyncio.Event) -> Recorder:
    """Send the share of process `rank`, from the monotonic instant `start_at`, and return what was recorded.

    When `stop` is set nothing more is sent, and what is due or in flight is counted as unfinished.
    """
    late_after_ms = plan.load.late_after_ms if isinstance(plan.load, OpenLoop) else None
    recorder = Recorder(slo_ms=plan.slo_ms, late_after_ms=late_after_ms)
    async with Client(plan.workload, plan.timeout_s) as client:
        part = _Part(plan, rank, start_at, client, recorder)
        cpu_before_s = thread_time()
        if isinstance(plan.load, OpenLoop):
            await _until_stopped(_open_loop(plan.load, part), stop)
        else:
            await _until_stopped(_closed_loop(plan.load, part), stop)
        elapsed_s, cpu_s = monotonic() - start_at, thread_time() - cpu_before_s
        recorder.record_process(elapsed_s, cpu_s, warmup_s=plan.warmup_s)
    return recorder


@dataclass(frozen=True, slots=True)
class _Part:
    plan: Plan
    rank: int
    start_at: float
    client: Client
    recorder: Recorder

    @property
    def counts_from(self) -> float:
        """The instant at which the warm-up is over: what was due before is not recorded."""
        return self.start_at + self.plan.warmup_s

    def share_of(self, total: int) -> int:
        return share_of(total, self.rank, self.plan.num_processes)


async def _until_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Run `work` to its end or until `stop` is set, and leave nothing of it running."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.wait((working, stopping))
    if not working.cancelled():
        working.result()


async def _open_loop(load: OpenLoop, part: _Part) -> None:
    recorder, cap = part.recorder, load.max_concurrency
    free = None if cap is None else asyncio.Semaphore(part.share_of(cap))

    async def send(body: bytes | None, planned_at: float) -> None:
        sample = await part.client.send(body, planned_at)
        if planned_at >= counts_from:
            recorder.record(sample)
        if free is not None:
            free.release()

    requests, counts_from = planned_share(part.plan, load, part.rank), part.counts_from
    num_due = 0
    try:
        # A request that waits for the cap stays in the plan, so that a backlog takes no memory.
        with Pacer() as pacer:
            async with asyncio.TaskGroup() as in_flight:
                for planned_s, body in requests:
                    planned_at = part.start_at + planned_s
                    await pacer.until(planned_at)
                    num_due += planned_at >= counts_from
                    if free is not None:
                        await free.acquire()
                    in_flight.create_task(send(body, planned_at))
    finally:
        stopped_s = monotonic() - part.start_at
        missed = takewhile(lambda request: request[0] <= stopped_s, requests)
        num_due += sum(part.start_at + planned_s >= counts_from for planned_s, _ in missed)
        recorder.record_unfinished(num_due - recorder.num_recorded)


async def _closed_loop(load: ClosedLoop, part: _Part) -> None:
    plan, recorder, counts_from = part.plan, part.recorder, part.counts_from
    ends_at = math.inf if plan.duration_s is None else counts_from + plan.duration_s
    # Callers share what is left to send: a quick one takes more turns.
    turns = repeat(None) if plan.num_requests is None else repeat(None, part.share_of(plan.num_requests))
    bodies = islice(plan.workload.take_turns(plan.seed), part.rank, None, plan.num_processes)
    num_sent = 0

    async def call() -> None:
        nonlocal num_sent
        while (now := monotonic()) < ends_at:
            if now < counts_from:
                await part.client.send(next(bodies))
            elif next(turns, 0) is None:
                num_sent += 1
                recorder.record(await part.client.send(next(bodies)))
            else:
                return
            if load.think_s:
                await asyncio.sleep(min(load.think_s, max(ends_at - monotonic(), 0.0)))

    try:
        with Pacer() as pacer:
            await pacer.until(part.start_at)
        async with asyncio.TaskGroup() as callers:
            for _ in range(part.share_of(load.num_callers)):
                callers.create_task(call())
    finally:
        recorder.record_unfinished(num_sent - recorder.num_recorded)
