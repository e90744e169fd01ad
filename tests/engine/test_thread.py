from __future__ import annotations

import asyncio
import functools
import threading

import pytest

from faas.engine.edf import PATIENCE_S
from faas.engine.thread import Lease, ModelThread
from faas.errors import HandlerError

from .conftest import Run
from .rig import LONG_S, FakeClock, Gate


def test_the_lease_is_first_come_first_served() -> None:
    lease, order = Lease(), list[str]()
    for name in "abc":
        lease.request(functools.partial(order.append, name))
    assert (order, lease.held) == (["a"], True)
    lease.release()
    lease.request(lambda: order.append("a again"))
    lease.release()
    lease.release()
    assert order == ["a", "b", "c", "a again"]
    lease.release()
    assert not lease.held


def test_the_lease_goes_to_the_one_whose_turn_should_come_first() -> None:
    clock = FakeClock()
    lease, order = Lease(clock), list[str]()
    turns = {"late": 107.0, "soon": 103.0, "middle": 105.0}
    lease.request(lambda: order.append("first"))
    for name, moment in turns.items():
        lease.request(functools.partial(order.append, name), lambda asked_at, moment=moment: moment)
    for _ in turns:
        lease.release()
    assert order == ["first", "soon", "middle", "late"]


def test_who_has_no_promise_waits_for_its_patience_and_no_longer() -> None:
    clock = FakeClock()
    lease, order = Lease(clock), list[str]()
    lease.request(lambda: order.append("first"))
    lease.request(lambda: order.append("patient"))
    for _ in range(100):  # others whose next batch is always due within 10 ms
        lease.request(lambda: order.append("urgent"), lambda asked_at: asked_at + 0.010)
        clock.now += 0.030
        lease.release()
    assert order.index("patient") * 0.030 == pytest.approx(PATIENCE_S, abs=0.050)


def test_a_request_may_be_withdrawn() -> None:
    lease, order = Lease(), []
    lease.request(lambda: order.append("a"))
    second = lambda: order.append("b")  # noqa: E731
    lease.request(second)
    assert lease.withdraw(second)
    assert not lease.withdraw(second)
    lease.release()
    assert order == ["a"]
    assert not lease.held


def test_everything_runs_on_one_thread_that_is_not_the_loops(run: Run) -> None:
    async def scenario() -> None:
        thread = ModelThread("model-x")
        seen = {await thread.run(threading.current_thread) for _ in range(20)}
        assert {one.name for one in seen} == {"model-x"}
        assert all(one.daemon for one in seen)
        assert threading.current_thread() not in seen
        assert await thread.close()
        assert not any(one.is_alive() for one in seen)

    run(scenario())


def test_values_and_errors_come_back(run: Run) -> None:
    async def scenario() -> None:
        thread = ModelThread()
        assert await thread.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 7, 0)
        with pytest.raises(HandlerError, match="StopIteration"):
            await thread.run(next, iter(()))
        with pytest.raises(HandlerError, match="SystemExit"):
            await thread.run(exit_now)
        assert not thread.lease.held
        await thread.close()

    run(scenario())


def exit_now() -> None:
    raise SystemExit(2)


def test_whoever_gives_up_waiting_does_not_keep_the_lease(run: Run) -> None:
    async def scenario() -> None:
        thread, gate, ran = ModelThread(), Gate(), list[str]()
        first = asyncio.create_task(thread.run(gate.pass_through))
        await gate.entered()
        waiting = asyncio.create_task(thread.run(ran.append, "never"))
        await asyncio.sleep(0)
        waiting.cancel()
        first.cancel()
        await asyncio.gather(first, waiting, return_exceptions=True)
        assert thread.lease.held, "the first function still runs"
        gate.open()
        assert await thread.run(lambda: "next") == "next"
        assert ran == []
        await thread.close()

    run(scenario())


def test_its_stack_can_be_seen_while_it_is_stuck(run: Run) -> None:
    async def scenario() -> None:
        thread, gate = ModelThread(), Gate()
        assert thread.stack() == ""
        stuck = asyncio.create_task(thread.run(gate.pass_through))
        await gate.entered()
        assert "pass_through" in thread.stack()
        gate.open()
        await stuck
        await thread.close()

    run(scenario())


def test_closing_leaves_a_stuck_thread_behind(run: Run) -> None:
    async def scenario() -> None:
        thread, gate = ModelThread(), Gate()
        stuck = asyncio.create_task(thread.run(gate.pass_through))
        await gate.entered()
        assert not await thread.close(0.01)
        gate.open()
        await stuck
        assert await thread.close(LONG_S)

    run(scenario())


def test_a_closed_thread_says_so(run: Run) -> None:
    async def scenario() -> None:
        thread = ModelThread()
        assert await thread.close()
        with pytest.raises(RuntimeError, match="was closed"):
            await thread.run(len, "abc")
        assert not thread.lease.held

    run(scenario())
