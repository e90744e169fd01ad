import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import loadgen
from loadgen import ClosedLoop, OpenLoop, Report, SettingError, Workload, run
from tests.loadgen.stub import Handler, ok, serving

STEADY = OpenLoop(rate_per_s=100, arrivals="constant")


def run_on(handler: Handler, load: OpenLoop | ClosedLoop, **settings: Any) -> Report:
    async def measure() -> Report:
        async with serving(handler) as url:
            return await run(load, Workload.json(url, range(4)), **settings)

    return asyncio.run(measure())


class Freezing:
    """Answers in 5 ms, save that from 2 s to 4 s after the first request nothing moves."""

    def __init__(self) -> None:
        self._first_at: float | None = None

    async def __call__(self, _: web.Request) -> web.Response:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
        if 2 <= now - self._first_at < 4:
            await asyncio.sleep(self._first_at + 4 - now)
        await asyncio.sleep(0.005)
        return web.Response()


@pytest.mark.slow
def test_lg_01_a_frozen_server_shows_in_the_latency_of_all_it_kept_waiting() -> None:
    report = run_on(Freezing(), STEADY, duration_s=10)
    assert (report.num_offered, report.outcomes["ok"]) == (1000, 1000)
    assert report.latency is not None
    assert report.latency.p90_ms >= 900
    assert report.latency.p99_ms >= 1700
    assert 1900 <= report.latency.max_ms < 3000
    assert report.latency.p50_ms < 500


def test_lg_01_what_a_cap_holds_back_is_timed_from_when_it_was_due() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response()

    load = OpenLoop(rate_per_s=10, arrivals="constant", max_concurrency=1)
    report = run_on(slow, load, num_requests=8)
    assert report.outcomes["ok"] == 8
    assert report.latency is not None
    assert report.service is not None
    assert report.lateness is not None
    assert 1850 <= report.latency.mean_ms <= 2300
    assert 490 <= report.service.mean_ms <= 900
    assert report.lateness.mean_ms == pytest.approx(report.latency.mean_ms - report.service.mean_ms)
    assert report.num_late >= 7
    assert "at most 1" in report.warnings[0]


def test_an_open_loop_sends_what_was_planned() -> None:
    bodies: Counter[str] = Counter()

    async def count(request: web.Request) -> web.Response:
        bodies[await request.text()] += 1
        return web.Response()

    report = run_on(count, STEADY, duration_s=0.4, slo_ms=30_000)
    assert bodies == {"0": 10, "1": 10, "2": 10, "3": 10}
    assert (report.num_offered, report.slo_attainment, report.stopped_early) == (40, 1.0, False)
    assert report.elapsed_s >= 0.39


def test_a_client_that_falls_late_says_so() -> None:
    async def block_once(request: web.Request) -> web.Response:
        if await request.text() == "3":
            time.sleep(0.02)  # noqa: ASYNC251 - the point: the client shares this loop
        return web.Response()

    report = run_on(block_once, OpenLoop(rate_per_s=200, arrivals="constant"), num_requests=40)
    assert report.num_late >= 5
    assert "due" in report.warnings[0]


class Meeting:
    """Answers when `num` requests are in at once, and so never a client that sends fewer."""

    def __init__(self, num: int) -> None:
        self._all_here = asyncio.Barrier(num)
        self._num_in = 0
        self.most = 0
        self.bodies: Counter[str] = Counter()

    async def __call__(self, request: web.Request) -> web.Response:
        self._num_in += 1
        self.most = max(self.most, self._num_in)
        self.bodies[await request.text()] += 1
        await self._all_here.wait()
        self._num_in -= 1
        return web.Response()


def test_an_open_loop_does_not_wait_for_answers() -> None:
    report = run_on(Meeting(30), OpenLoop(arrivals=(0.0,) * 30))
    assert report.outcomes["ok"] == 30


def test_a_cap_is_filled_and_kept() -> None:
    server = Meeting(4)
    report = run_on(server, OpenLoop(arrivals=(0.0,) * 32, max_concurrency=4))
    assert (report.outcomes["ok"], server.most) == (32, 4)


def test_a_closed_loop_sends_its_number_with_its_callers() -> None:
    server = Meeting(5)
    report = run_on(server, ClosedLoop(num_callers=5), num_requests=40)
    assert (report.num_offered, report.outcomes["ok"], server.most) == (40, 40, 5)
    assert server.bodies == {"0": 10, "1": 10, "2": 10, "3": 10}
    assert report.latency == report.service
    assert report.lateness is None


class SlowAtFirst:
    """Needs a while for all that is sent in the first quarter of a second."""

    def __init__(self) -> None:
        self._first_at: float | None = None
        self.num_seen = 0

    async def __call__(self, _: web.Request) -> web.Response:
        now = time.monotonic()
        self._first_at = self._first_at or now
        self.num_seen += 1
        if now - self._first_at < 0.25:
            await asyncio.sleep(0.6)
        return web.Response()


@pytest.mark.parametrize("settings", [{"duration_s": 0.25}, {"num_requests": 25}, {"num_requests": 25, "processes": 2}])
def test_what_is_due_in_the_warm_up_is_sent_and_not_recorded(settings: dict[str, Any]) -> None:
    server = SlowAtFirst()
    report = run_on(server, STEADY, warmup_s=0.5, **settings)
    assert server.num_seen == 75
    assert (report.num_offered, report.outcomes["ok"], report.warmup_s) == (25, 25, 0.5)
    assert report.latency is not None
    assert report.latency.max_ms < 600
    assert 0.2 <= report.elapsed_s < 20


def test_the_calls_of_a_warm_up_are_none_of_a_closed_loops_number() -> None:
    server = SlowAtFirst()
    report = run_on(server, ClosedLoop(num_callers=4), warmup_s=0.3, num_requests=12)
    assert (report.num_offered, report.outcomes["ok"], server.num_seen) == (12, 12, 16)
    assert report.latency is not None
    assert report.latency.max_ms < 600


def test_a_closed_loop_ends_with_its_duration_however_long_its_callers_think() -> None:
    report = run_on(ok, ClosedLoop(num_callers=3, think_s=60), duration_s=0.2)
    assert (report.num_offered, report.outcomes["ok"]) == (3, 3)
    assert 0.19 <= report.elapsed_s < 30


def test_a_caller_thinks_between_calls() -> None:
    report = run_on(ok, ClosedLoop(num_callers=2, think_s=0.05), num_requests=6)
    assert report.num_offered == 6
    assert report.elapsed_s >= 0.1


def test_outcomes_and_cold_starts_are_kept_apart() -> None:
    num_seen = 0

    async def vary(_: web.Request) -> web.Response:
        nonlocal num_seen
        num_seen += 1
        cold = num_seen == 1
        if cold:
            await asyncio.sleep(0.3)
        status = {8: 503, 9: 429, 10: 500, 11: 404}.get(num_seen, 200)
        return web.Response(status=status, headers={"X-Cold-Start": str(int(cold)), "X-Batch-Size": "1"})

    report = run_on(vary, ClosedLoop(num_callers=1), num_requests=12)
    assert {outcome: num for outcome, num in report.outcomes.items() if num} == {
        "ok": 8, "overloaded": 2, "server_error": 1, "client_error": 1
    }  # fmt: skip
    assert (report.num_cold, report.cold_fraction) == (1, 1 / 12)
    assert report.cold_latency is not None
    assert report.warm_latency is not None
    assert (report.cold_latency.num, report.warm_latency.num) == (1, 7)
    assert report.cold_latency.p50_ms >= 290


def test_a_time_out_runs_from_the_send_and_is_a_miss() -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    report = run_on(never, OpenLoop(arrivals=(0.0, 0.05)), timeout_s=0.3, slo_ms=60_000)
    assert (report.outcomes["timeout"], report.slo_attainment, report.num_completed) == (2, 0.0, 0)
    assert report.latency is None
    assert report.latency_by_outcome["timeout"].max_ms >= 290


class Holding:
    """Answers the first `num` requests and then none; `held` is set when as many are waiting."""

    def __init__(self, num: int) -> None:
        self._left = num
        self._num_held = 0
        self._num_to_hold = num
        self.held = asyncio.Event()

    async def __call__(self, _: web.Request) -> web.Response:
        if self._left:
            self._left -= 1
            return web.Response()
        self._num_held += 1
        if self._num_held == self._num_to_hold:
            self.held.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("load", [STEADY, ClosedLoop(num_callers=4)], ids=["open", "closed"])
def test_a_stopped_run_reports_what_there_was(load: OpenLoop | ClosedLoop, processes: int) -> None:
    async def measure() -> Report:
        server, stop = Holding(4), asyncio.Event()
        async with serving(server) as url, asyncio.TaskGroup() as group:
            running = group.create_task(
                run(load, Workload(url=url), duration_s=600, processes=processes, stop=stop, slo_ms=60_000)
            )
            await server.held.wait()
            stop.set()
            return await running

    report = asyncio.run(measure())
    assert report.stopped_early
    assert 1 <= report.outcomes["ok"] <= 4
    assert report.outcomes["unfinished"] >= 4
    assert report.num_offered == report.outcomes["ok"] + report.outcomes["unfinished"]
    assert report.slo_attainment == report.outcomes["ok"] / report.num_offered
    assert report.elapsed_s < 300


def test_a_stop_counts_what_a_cap_still_held_back() -> None:
    async def measure() -> Report:
        server, stop = Holding(1), asyncio.Event()
        load = OpenLoop(arrivals=(0.0,) * 50 + (500.0,) * 50, max_concurrency=1)
        async with serving(server) as url, asyncio.TaskGroup() as group:
            running = group.create_task(run(load, Workload(url=url), stop=stop))
            await server.held.wait()
            stop.set()
            return await running

    report = asyncio.run(measure())
    assert (report.outcomes["ok"], report.outcomes["unfinished"]) == (1, 49)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_cancelled_run_leaves_nothing(processes: int) -> None:
    async def measure() -> None:
        server, before = Holding(2), os.listdir("/proc/self/fd")
        async with serving(server) as url:
            running = asyncio.create_task(run(STEADY, Workload(url=url), duration_s=600, processes=processes))
            await server.held.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            files = {task.get_stack()[0].f_code.co_filename for task in asyncio.all_tasks()}
            assert not [file for file in files if Path(file).parent == Path(loadgen.__file__).parent]
        assert os.listdir("/proc/self/fd") == before

    asyncio.run(measure())


class Failing(Workload):
    def take_turns(self, seed: int) -> Iterator[bytes | None]:
        raise RuntimeError("no body to be had")


@pytest.mark.parametrize("load", [STEADY, ClosedLoop(num_callers=4)], ids=["open", "closed"])
def test_a_fault_of_the_client_is_raised_not_reported(load: OpenLoop | ClosedLoop) -> None:
    with pytest.raises(RuntimeError, match="no body"):
        asyncio.run(run(load, Failing(url="http://127.0.0.1:1/"), num_requests=4))


def test_a_bad_setting_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(SettingError, match="duration_s is -1"):
        run_on(ok, STEADY, duration_s=-1)


def test_requests_for_which_no_descriptor_is_left_are_no_fault_of_the_server() -> None:
    many = (
        "import asyncio, resource, sys\n"
        "from loadgen import ClosedLoop, Workload, run\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "report = asyncio.run(run(ClosedLoop(num_callers=80), Workload(url=sys.argv[1]), num_requests=80))\n"
        "print(report.outcomes['ok'] > 0, report.outcomes['unsent'] > 0, report.outcomes['connect_error'])\n"
        "print(*report.warnings)\n"
    )

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response()

    async def measure() -> str:
        async with serving(slow) as url:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", many, url, stdout=asyncio.subprocess.PIPE
            )
            return (await child.communicate())[0].decode()

    outcomes, warnings = asyncio.run(measure()).splitlines()
    assert outcomes == "True True 0"
    assert "ulimit -n" in warnings
