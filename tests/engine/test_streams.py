from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from faas.engine import runners
from faas.engine.thread import ModelThread
from faas.errors import BadInput, CallerGone, DeadlineExceeded, HandlerError, Unavailable
from faas.messages import END, Call, Context
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, call, events, serving, settled

BATCHED = Batching(max_batch_size=8)


def counts(ns: list[int]) -> Iterator[list[Any]]:
    """Each item counts up to itself, on its own time."""
    for step in range(max(ns) + 1):
        yield [END if step >= n else step for n in ns]


async def acounts(ns: list[int]) -> AsyncIterator[list[Any]]:
    for slots in counts(ns):
        yield slots
        await asyncio.sleep(0)


def count(n: int) -> Iterator[int]:
    yield from range(n)


async def acount(n: int) -> AsyncIterator[int]:
    for step in range(n):
        yield step
        await asyncio.sleep(0)


@pytest.mark.parametrize(("handler", "kind"), [(count, "generator"), (acount, "async_generator")])
def test_unbatched_events_come_as_they_are_made(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind) as engine:
            made = call(n=5)
            assert await events(engine, made) == [0, 1, 2, 3, 4]
            assert await events(engine, call(n=0)) == []
            assert 0 < made.queued_at <= made.picked_at <= made.started_at <= made.ended_at
            assert made.batch_size == 1

    run(scenario())


@pytest.mark.parametrize(("handler", "kind"), [(counts, "generator"), (acounts, "async_generator")])
def test_batched_streams_of_unequal_length_each_end_on_their_own(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind, BATCHED) as engine:
            made = [call(ns=n) for n in (1, 3, 10, 0)]
            got = await asyncio.gather(*(events(engine, one) for one in made))
            assert got == [list(range(n)) for n in (1, 3, 10, 0)]
            assert [one.batch_size for one in made] == [4] * 4
            ends = [one.ended_at for one in made]
            assert ends[3] < ends[0] < ends[1] < ends[2]

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_a_slot_that_has_ended_is_ignored_and_a_generator_that_is_through_ends_the_rest(run: Run, kind: str) -> None:
    def steps(xs: list[Any]) -> Iterator[list[Any]]:
        yield ["a", "b", END, ValueError("short")]
        yield ["a", END, "ghost", "ghost"]
        yield ["a", "ghost", ValueError("ghost"), END]

    async def asteps(xs: list[Any]) -> AsyncIterator[list[Any]]:
        for slots in steps(xs):
            yield slots

    async def scenario() -> None:
        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind, BATCHED) as engine:
            got = await asyncio.gather(*(events(engine, call(xs=x)) for x in range(4)))
        assert got[:3] == [["a", "a", "a"], ["b"], []]
        assert isinstance(got[3][0], BadInput)

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_an_error_midway_fails_the_streams_that_are_still_open(run: Run, kind: str) -> None:
    def steps(xs: list[Any]) -> Iterator[list[Any]]:
        yield list(xs)
        yield [END, *xs[1:]]
        raise RuntimeError("lost the device")

    async def asteps(xs: list[Any]) -> AsyncIterator[list[Any]]:
        for slots in steps(xs):
            yield slots

    async def scenario() -> None:
        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind, BATCHED) as engine:
            got = await asyncio.gather(*(events(engine, call(xs=x)) for x in range(3)))
        assert got[0] == [0]
        for at in (1, 2):
            assert got[at][:2] == [at, at]
            assert isinstance(got[at][2], HandlerError)
            assert "RuntimeError for 2 items together: lost the device" in str(got[at][2])
        assert got[1][2] is not got[2][2]

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_before_the_first_event_a_bad_item_is_isolated(run: Run, kind: str) -> None:
    started = []

    def steps(xs: list[int]) -> Iterator[list[Any]]:
        started.append(list(xs))
        if 0 in xs:
            raise BadInput("zero")
        yield [x * 10 for x in xs]
        yield [x * 100 for x in xs]

    async def asteps(xs: list[int]) -> AsyncIterator[list[Any]]:
        for slots in steps(xs):
            yield slots

    async def scenario() -> None:
        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind, BATCHED) as engine:
            got = await asyncio.gather(*(events(engine, call(xs=x)) for x in (1, 2, 0, 4)))
        assert [got[0], got[1], got[3]] == [[10, 100], [20, 200], [40, 400]]
        assert isinstance(got[2][0], BadInput)
        assert started == [[1, 2, 0, 4], [1, 2], [0], [4]]

    run(scenario())


def test_the_halves_of_an_isolated_stream_advance_together(run: Run) -> None:
    async def scenario() -> None:
        release = threading.Event()

        def steps(xs: list[str]) -> Iterator[list[Any]]:
            if "bad" in xs:
                raise BadInput("bad")
            yield xs
            if "endless" in xs:
                while not release.is_set():
                    yield xs
            yield [END] * len(xs)

        async with serving(steps, "generator", BATCHED) as engine:
            endless = asyncio.create_task(events(engine, call(xs="endless")))
            rest = [asyncio.create_task(events(engine, call(xs=x))) for x in ("other", "bad", "short")]
            done = await asyncio.wait_for(asyncio.gather(*rest[1:]), LONG_S)
            assert isinstance(done[0][0], BadInput)
            assert done[1] == ["short"], "it does not wait for a stream of another half that never ends"
            release.set()
            assert set(await endless) == {"endless"}

    run(scenario())


@pytest.mark.parametrize("wrong", [["a"], "ab", {"a": 1, "b": 2}])
@pytest.mark.parametrize("first", [True, False])
def test_a_step_of_the_wrong_length_or_type_fails_every_stream(run: Run, wrong: Any, first: bool) -> None:
    closed = []

    def steps(xs: list[int]) -> Iterator[Any]:
        try:
            if not first:
                yield xs
            yield wrong
            yield xs
        finally:
            closed.append(True)

    async def scenario() -> None:
        async with serving(steps, "generator", BATCHED) as engine:
            got = await asyncio.gather(*(events(engine, call(xs=x)) for x in range(2)))
        for stream in got:
            assert len(stream) == (1 if first else 2)
            assert isinstance(stream[-1], HandlerError)
            assert "2 items" in str(stream[-1])
        assert closed == [True]

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_an_unbatched_generator_may_end_itself_with_end_or_an_exception(run: Run, kind: str) -> None:
    def steps(x: str) -> Iterator[Any]:
        yield 1
        yield {"end": END, "value": ValueError("no"), "raise": None}[x]
        if x == "raise":
            raise KeyError("k")
        yield "ghost"

    async def asteps(x: str) -> AsyncIterator[Any]:
        for event in steps(x):
            yield event

    async def scenario() -> None:
        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind) as engine:
            assert await events(engine, call(x="end")) == [1]
            got = await events(engine, call(x="value"))
            assert (got[0], type(got[1])) == (1, BadInput)
            got = await events(engine, call(x="raise"))
            assert (got[:2], type(got[2])) == ([1, None], KeyError)

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_a_generator_whose_readers_all_left_is_closed(run: Run, kind: str) -> None:
    async def scenario() -> None:
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def steps(xs: list[int]) -> Iterator[list[int]]:
            try:
                while True:
                    yield xs
            finally:
                loop.call_soon_threadsafe(closed.set)

        async def asteps(xs: list[int]) -> AsyncIterator[list[int]]:
            try:
                while True:
                    yield xs
                    await asyncio.sleep(0)
            finally:
                closed.set()

        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind, BATCHED) as engine:
            made = [call(xs=x) for x in range(2)]
            readers = [aiter_of(engine, one) for one in made]
            for reader in readers:
                await anext(reader)
            made[0].leave()
            for _ in range(5):
                assert await anext(readers[1]) == 1
            assert not closed.is_set()
            made[1].leave()
            await asyncio.wait_for(closed.wait(), LONG_S)
            await settled(lambda: engine.num_running == 0)

    run(scenario())


def aiter_of(engine: Any, made: Call) -> AsyncIterator[Any]:
    engine.submit(made)
    return made.events()


def test_an_unbatched_async_generator_is_cancelled_where_it_waits(run: Run) -> None:
    async def scenario() -> None:
        seen = []
        waits = asyncio.Event()

        async def steps(x: int, context: Context) -> AsyncIterator[int]:
            yield x
            try:
                waits.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append(context.cancelled())
                raise

        async with serving(steps, "async_generator", context="context") as engine:
            made = call(x=1)
            reader = aiter_of(engine, made)
            assert await anext(reader) == 1
            await waits.wait()
            made.leave()
            with pytest.raises(CallerGone):
                await anext(reader)
            await settled(lambda: engine.num_running == 0)
            assert seen == [True]

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_a_deadline_ends_a_stream_in_the_middle(run: Run, kind: str) -> None:
    async def scenario() -> None:
        stop = threading.Event()

        def steps(x: int) -> Iterator[int]:
            while not stop.wait(0.002):
                yield x

        async def asteps(x: int) -> AsyncIterator[int]:
            while True:
                yield x
                await asyncio.sleep(0.002)

        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind) as engine:
            got = await events(engine, call(0.2, x=1))
            assert got[0] == 1
            assert isinstance(got[-1], DeadlineExceeded)
            await settled(lambda: engine.num_running == 0)
            stop.set()

    run(scenario())


def test_a_generator_on_the_thread_is_held_back_while_its_reader_rests(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "MAX_BACKLOG", 50)

    async def scenario() -> None:
        made_events = []

        def steps(n: int) -> Iterator[int]:
            for event in range(n):
                made_events.append(event)
                yield event

        async with serving(steps, "generator") as engine:
            made = call(n=5000)
            engine.submit(made)
            await settled(lambda: made.backlog >= 50)
            await asyncio.sleep(0.05)
            most = 50 + 2 * runners._STEPS_UNDER_WAY
            assert made.backlog <= most
            assert len(made_events) <= most
            assert [event async for event in made.events()] == list(range(5000))

    run(scenario())


def test_an_async_generator_is_held_back_while_its_reader_rests(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "MAX_BACKLOG", 50)

    async def scenario() -> None:
        async with serving(acount, "async_generator") as engine:
            made = call(n=1000)
            engine.submit(made)
            await settled(lambda: made.backlog >= 50)
            await asyncio.sleep(0.01)
            assert made.backlog == 50
            assert [event async for event in made.events()] == list(range(1000))

    run(scenario())


def test_a_reader_of_the_threads_stream_who_rests_too_long_is_given_up(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "MAX_BACKLOG", 50)
    monkeypatch.setattr(runners, "PATIENCE_S", 0.05)

    async def scenario() -> None:
        async with serving(count, "generator") as engine:
            made = call(n=10**9)
            engine.submit(made)
            await settled(lambda: made.done)
            with pytest.raises(CallerGone, match="read too slowly"):
                async for _ in made.events():
                    pass
            await settled(lambda: engine.num_running == 0)
            assert await events(engine, call(n=3)) == [0, 1, 2]

    run(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_a_slow_reader_in_a_batch_is_given_up_and_its_mates_are_not_held(
    run: Run, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "MAX_BACKLOG", 200)

    async def scenario() -> None:
        handler: Any = counts if kind == "generator" else acounts
        async with serving(handler, kind, BATCHED) as engine:
            slow = call(ns=2000)
            engine.submit(slow)
            assert await events(engine, call(ns=2000)) == list(range(2000))
            with pytest.raises(CallerGone, match="read too slowly"):
                async for _ in slow.events():
                    pass

    run(scenario())


@pytest.mark.parametrize(("handler", "kind"), [(counts, "generator"), (acounts, "async_generator")])
def test_streams_still_running_after_the_grace_are_unavailable(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind, BATCHED) as engine:
            made = call(ns=10**9)
            reader = aiter_of(engine, made)
            assert await anext(reader) == 0
            reading = asyncio.create_task(rest_of(reader))
            await engine.drain(0.01)
            assert isinstance(await reading, Unavailable)

    run(scenario())


async def rest_of(reader: AsyncIterator[Any]) -> Exception | None:
    try:
        async for _ in reader:
            pass
    except Exception as error:
        return error
    return None


def test_a_generator_that_raises_while_it_is_closed_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        def steps(x: int) -> Iterator[int]:
            try:
                while True:
                    yield x
            finally:
                raise RuntimeError("cannot close")

        thread = ModelThread()
        async with serving(steps, "generator", thread=thread) as engine:
            made = call(x=1)
            reader = aiter_of(engine, made)
            await anext(reader)
            made.leave()
            await settled(lambda: engine.num_running == 0)
            made = call(x=2)
            assert await anext(aiter_of(engine, made)) == 2
            made.leave()
        await thread.close(LONG_S)

    run(scenario())
    assert any("closed" in record.message for record in caplog.records)


@pytest.mark.parametrize("batched", [False, True])
def test_events_of_an_async_generator_that_awaits_nothing_come_as_they_are_made(run: Run, batched: bool) -> None:
    seen: list[Any] = []

    async def computing(n: Any) -> AsyncIterator[Any]:
        for _ in range(5):
            time.sleep(0.005)  # noqa: ASYNC251 (as users do)
            yield [len(seen)] if batched else len(seen)

    async def scenario() -> None:
        async with serving(computing, "async_generator", BATCHED if batched else None) as engine:
            one = call(n=1)
            engine.submit(one)
            async for event in one.events():
                seen.append(event)  # noqa: PERF401 (one by one)
        assert seen == [0, 1, 2, 3, 4]

    run(scenario())
