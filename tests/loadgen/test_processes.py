import asyncio
import os
import signal
from collections import Counter

import psutil
import pytest
from aiohttp import web

from loadgen import ClosedLoop, OpenLoop, Report, WorkerError, Workload, run, stop_on_interrupt
from tests.loadgen.stub import serving


def workers() -> list[int]:
    """Return the load processes that this process has started."""
    return [child.pid for child in psutil.Process().children() if "loadgen.worker" in child.cmdline()]


def test_processes_send_one_plan_between_them() -> None:
    bodies: Counter[str] = Counter()

    async def count(request: web.Request) -> web.Response:
        bodies[await request.text()] += 1
        return web.Response(headers={"X-Cold-Start": "0", "X-Batch-Size": "2", "Server-Timing": "exec;dur=3"})

    async def measure(processes: int) -> Report:
        bodies.clear()
        async with serving(count) as url:
            workload = Workload.json(url, range(5), order="random")
            load = OpenLoop(rate_per_s=200)
            return await run(load, workload, num_requests=101, processes=processes, seed=9, slo_ms=60_000)

    alone = asyncio.run(measure(1))
    bodies_alone = dict(bodies)
    together = asyncio.run(measure(2))
    assert dict(bodies) == bodies_alone
    for report in (alone, together):
        assert (report.num_offered, report.outcomes["ok"], report.statuses) == (101, 101, {200: 101})
        assert report.latency is not None
        assert report.warm_latency is not None
        assert (report.latency.num, report.warm_latency.num, report.phases["exec"].num) == (101, 101, 101)
        assert (report.slo_attainment, report.mean_batch_size, report.num_bytes) == (1.0, 2.0, 0)
    assert together.num_processes == 2


def test_processes_share_callers_and_number() -> None:
    num_seen, num_in, most = 0, 0, 0

    async def measure() -> Report:
        all_here = asyncio.Barrier(5)

        async def meet_at_first(_: web.Request) -> web.Response:
            nonlocal num_seen, num_in, most
            num_seen, num_in = num_seen + 1, num_in + 1
            most = max(most, num_in)
            if num_seen <= 5:
                await all_here.wait()
            num_in -= 1
            return web.Response()

        async with serving(meet_at_first) as url:
            return await run(ClosedLoop(num_callers=5), Workload(url=url), num_requests=31, processes=2)

    report = asyncio.run(measure())
    assert (report.num_offered, report.outcomes["ok"]) == (31, 31)
    assert most == 5


def test_a_process_that_dies_is_an_error_and_takes_the_rest_along() -> None:
    async def kill_one(_: web.Request) -> web.Response:
        if not killed:
            killed.append(workers()[0])
            os.kill(killed[0], signal.SIGKILL)
        return web.Response()

    async def measure() -> None:
        async with serving(kill_one) as url:
            await run(OpenLoop(rate_per_s=50), Workload(url=url), duration_s=600, processes=2)

    killed: list[int] = []
    with pytest.raises(WorkerError, match="-9"):
        asyncio.run(measure())
    assert killed
    assert workers() == []


def test_an_interrupt_ends_the_run_with_a_report() -> None:
    async def interrupt(_: web.Request) -> web.Response:
        if not interrupted:
            # What a terminal does: interrupt all of this session.
            interrupted.append(True)
            for process in (os.getpid(), *workers()):
                if os.getsid(process) == os.getsid(0):
                    os.kill(process, signal.SIGINT)
        return web.Response()

    async def measure() -> Report:
        async with serving(interrupt) as url:
            before = signal.getsignal(signal.SIGINT)
            with stop_on_interrupt() as stop:
                report = await run(OpenLoop(rate_per_s=50), Workload(url=url), duration_s=600, processes=2, stop=stop)
            assert signal.getsignal(signal.SIGINT) is before
            return report

    interrupted: list[bool] = []
    report = asyncio.run(measure())
    assert report.stopped_early
    assert report.num_offered >= 1
    assert workers() == []
