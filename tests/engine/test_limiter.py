"""Check D8 in whole engines: batches that need units of shared resources, in virtual time and on real threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from faas import Batching, RateLimit, Selection, endpoint, inference_function, variant
from faas.clock import monotonic
from faas.engine.assembly import Shared
from faas.engine.engine import Engine
from faas.engine.limiter import Limiter
from faas.engine.servable import Servable
from faas.engine.thread import Lease, ModelThread
from faas.errors import BadInput, DeadlineExceeded, DeadlineUnmeetable, Unavailable
from faas.handler import Handler

from .conftest import Run
from .rig import LONG_S, Gate, call, outcome, settled
from .virtual import Callers, item, now, virtual, virtually


class Models:
    """Handlers that take a second a batch, by name. `begun` says which began when, `most` how many were at once."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, str]] = []
        self.running: Counter[str] = Counter()
        self.most = 0
        self.held = asyncio.Event()  # what batches whose first item is "stubborn" wait for, whoever cancels them

    async def predict(self, name: str, xs: Any) -> Any:
        self.begun.append((now(), name))
        self.running[name] += 1
        self.most = max(self.most, self.running.total())
        try:
            while xs[0] == "stubborn" and not self.held.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await self.held.wait()
            await asyncio.sleep(1.0)
            if xs[0] == "raises":
                raise BadInput("no")
        finally:
            self.running[name] -= 1
        return list(xs)

    def names(self) -> str:
        return "".join(name for _, name in self.begun)

    def at(self, name: str) -> list[float]:
        """When batches of a name began."""
        return [moment for moment, one in self.begun if one == name]


@contextlib.asynccontextmanager
async def sharing(
    models: Models, limits: dict[str, RateLimit], **settings: Any
) -> AsyncIterator[dict[str, tuple[Engine, Callers]]]:
    """An engine for each name, and one limiter for all."""
    given: dict[str, Any] = {"max_batch_size": 1, "rate_limit": limits} | settings
    batching = Batching(**given)
    limiter = Limiter(batching)
    async with contextlib.AsyncExitStack() as stack:
        made = {}
        for name in limits:
            engine = await stack.enter_async_context(
                virtual(
                    functools.partial(models.predict, name), batching, limit=functools.partial(limiter.limited, name)
                )
            )
            made[name] = (engine, Callers(engine))
        yield made


def copies(count: int = 1, **settings: Any) -> RateLimit:
    return RateLimit(resources={"copies": count}, **settings)


@pytest.mark.parametrize(("pool", "took_s"), [(1, 20.0), (2, 10.0), (4, 5.0)])
def test_d8_as_many_batches_run_as_the_pool_has_units_for(pool: int, took_s: float) -> None:
    async def scenario() -> None:
        models = Models()
        limits = {"a": copies(pools={"copies": pool}), "b": copies()}
        async with sharing(models, limits, instances=2) as engines:
            for _, callers in engines.values():
                callers.send(*map(item, range(10)))
            for _, callers in engines.values():
                await callers.all()
            assert (models.most, now()) == (pool, took_s)

    virtually(scenario())


def test_d8_a_priority_of_2_gets_half_the_turns_of_1() -> None:
    async def scenario() -> None:
        models = Models()
        async with sharing(models, {"a": copies(), "b": copies(priority=2)}) as engines:
            for _, callers in engines.values():
                callers.send(*(item(x) for x in range(30)))
            await asyncio.sleep(29.5)
            assert models.most == 1
            assert Counter(models.names()) == {"a": 20, "b": 10}

    virtually(scenario())


def test_d8_a_batch_that_fails_gives_its_units_back() -> None:
    async def scenario() -> None:
        models = Models()
        async with sharing(models, {"a": copies(), "b": copies()}) as engines:
            (_, a), (_, b) = engines.values()
            a.send(item("raises"))
            await asyncio.sleep(0.5)
            b.send(item("well"))
            assert isinstance((await a.all())["raises"][1], BadInput)
            assert (await b.all())["well"] == (2.0, "well")

    virtually(scenario())


def test_d8_units_stay_taken_until_a_handler_has_really_ended() -> None:
    async def scenario() -> None:
        models = Models()
        async with sharing(models, {"a": copies(), "b": copies()}) as engines:
            (_, a), (_, b) = engines.values()
            a.send(item("stubborn", within_s=2.0))
            await asyncio.sleep(1.0)
            b.send(item("waits"))
            await asyncio.sleep(4.0)
            assert models.at("b") == []
            models.held.set()
            await b.all()
            assert models.at("b") == [6.0]
            assert isinstance((await a.all())["stubborn"][1], DeadlineExceeded)

    virtually(scenario())


@pytest.mark.parametrize("gone", ["leaves", "time is up"])
def test_d8_a_caller_who_goes_while_its_batch_waits_holds_up_nobody(gone: str) -> None:
    async def scenario() -> None:
        models = Models()
        limits = {"a": copies(pools={"copies": 3}), "large": copies(3), "small": copies()}
        async with sharing(models, limits) as engines:
            (_, a), (large, _), (_, small) = engines.values()
            a.send(*(item(x) for x in range(3)))
            await asyncio.sleep(0.1)
            gone_soon = item("gone", within_s=0.2)
            waits = asyncio.create_task(outcome(large, gone_soon))
            await asyncio.sleep(0.1)
            if gone == "leaves":
                gone_soon.leave()
            await waits
            small.send(item("small"))
            await small.all()
            await a.all()
            assert models.at("large") == []
            assert models.at("small")[0] < 0.5
            assert await outcome(large, item("again")) == "again", "its place asks again"

    virtually(scenario())


def test_d8_a_place_with_nothing_to_run_holds_up_nobody() -> None:
    async def scenario() -> None:
        models = Models()
        limits = {"large": copies(2, pools={"copies": 3}), "small": copies()}
        async with sharing(models, limits, instances=2) as engines:
            (_, large), (_, small) = engines.values()
            small.send(item(1), item(2))
            await asyncio.sleep(0.1)
            large.send(item("large"))  # both of its places wait for two units
            await asyncio.sleep(1.0)
            assert models.at("large") == [1.0]
            small.send(item(3))
            await small.all()
            assert models.at("small") == [0.0, 0.0, 1.1]

    virtually(scenario())


def test_d8_what_waits_for_units_is_finished_by_a_drain() -> None:
    async def scenario() -> None:
        models = Models()
        async with sharing(models, {"a": copies(), "b": copies()}) as engines:
            (_, a), (draining, b) = engines.values()
            a.send(item(1), item(2))
            b.send(item(3), item(4))
            await asyncio.sleep(0.5)
            await draining.drain(LONG_S)
            assert now() == 4.0
            answers = await b.all()
            assert [answers[x][1] for x in (3, 4)] == [3, 4]
            await a.all()

    virtually(scenario())


def test_d8_a_drain_whose_time_is_up_leaves_the_line_to_the_others() -> None:
    async def scenario() -> None:
        models = Models()
        async with sharing(models, {"a": copies(), "b": copies(), "c": copies()}) as engines:
            (_, a), (draining, b), (_, c) = engines.values()
            a.send(item("a"))
            await asyncio.sleep(0.1)
            b.send(item("b"))
            c.send(item("c"))
            await asyncio.sleep(0.1)
            await draining.drain(0.3)
            assert isinstance((await b.all())["b"][1], Unavailable)
            assert (await c.all())["c"] == (2.0, "c")
            assert models.at("b") == []
            await a.all()

    virtually(scenario())


def test_d8_an_engine_that_closes_leaves_its_place_in_the_line_at_once() -> None:
    async def scenario() -> None:
        models = Models()
        limits = {"a": copies(pools={"copies": 2}), "large": copies(2), "small": copies()}
        async with sharing(models, limits) as engines:
            (_, a), (closing, large), (_, small) = engines.values()
            a.send(item("a"))
            await asyncio.sleep(0.1)
            large.send(item("large"))
            await asyncio.sleep(0.1)
            small.send(item("small"))
            await asyncio.sleep(0.1)
            assert models.at("small") == [], "the large one is before it"
            await closing.close()
            await small.all()
            assert models.at("small") == [0.3]
            assert isinstance((await large.all())["large"][1], Unavailable)
            await a.all()

    virtually(scenario())


def test_d8_who_was_promised_something_is_told_while_its_batch_waits_for_units() -> None:
    async def scenario() -> None:
        models = Models()
        async with sharing(models, {"a": copies(), "b": copies()}, slo_ms=2500, max_batch_size=1) as engines:
            (_, a), (engine, b) = engines.values()
            for x in range(3):  # what a batch takes is known by then
                assert await outcome(engine, item(x)) == x
            a.send(item("stubborn", within_s=60.0))
            await asyncio.sleep(0.5)
            began = now()
            b.send(item("first", within_s=60.0), item("second", within_s=60.0))
            await asyncio.sleep(9.5)
            told = b.answers["first"]
            assert isinstance(told[1], DeadlineUnmeetable)
            assert told[0] - began == pytest.approx(1.5, abs=0.1), "when a batch would end too late for it"
            assert models.at("b") == [0.0, 1.0, 2.0]
            models.held.set()
            assert (await b.all())["second"] == (began + 11.5, "second"), "who waits alone is run, though late"
            assert await outcome(engine, item("next")) == "next"
            await a.all()

    virtually(scenario())


def test_d8_who_needs_no_units_waits_for_none() -> None:
    async def scenario() -> None:
        models = Models()
        batching = Batching(max_batch_size=1, rate_limit={"a": copies()})
        limiter = Limiter(batching)
        free = functools.partial(limiter.limited, "free")
        async with virtual(functools.partial(models.predict, "free"), batching, limit=free) as engine:
            holder = limiter.limited("a", Lease(), lambda: True)
            assert holder.take()
            assert await outcome(engine, item("free")) == "free"

    virtually(scenario())


def test_d8_a_right_that_others_give_back_wakes_who_waits_for_it(run: Run) -> None:
    """`setup()` of another version holds the model thread, and the limiter is not told when it ends."""

    async def scenario() -> None:
        thread, gate = ModelThread(), Gate()
        function = limited_function(instances=1)
        servable = Servable(Handler(function), Shared.of(function, thread, monotonic), "1")
        await servable.open()
        engine = servable.engines["/"]
        async with ending(thread, servable):
            setting_up = asyncio.create_task(thread.run(gate.pass_through))
            await gate.entered()
            answer = asyncio.create_task(outcome(engine, call(xs=1)))
            await settled(lambda: engine.num_queued == 1)
            gate.open()
            assert await answer == 1
            await setting_up

    run(scenario())


def test_d8_endpoints_of_a_function_that_share_a_resource_never_run_at_once(run: Run) -> None:
    async def scenario() -> None:
        thread, function = ModelThread(), limited_function(instances=2)
        Two.begin(None)
        servable = Servable(Handler(function), Shared.of(function, thread, monotonic), "1")
        await servable.open()
        async with ending(thread, servable):
            answers = await asyncio.gather(
                *(outcome(servable.engines[path], call(xs=x)) for x in range(20) for path in ("/", "/other"))
            )
        assert answers == [x for x in range(20) for _ in range(2)]
        assert Two.most == 1

    run(scenario())


def test_d8_with_a_larger_pool_they_do(run: Run) -> None:
    async def scenario() -> None:
        thread, function = ModelThread(), limited_function(instances=2, pools={"copies": 2})
        Two.begin(threading.Barrier(2, timeout=LONG_S))
        servable = Servable(Handler(function), Shared.of(function, thread, monotonic), "1")
        await servable.open()
        async with ending(thread, servable):
            paths = ("/", "/other")
            assert await asyncio.gather(*(outcome(servable.engines[path], call(xs=1)) for path in paths)) == [1, 1]

    run(scenario())


def test_d8_versions_of_a_function_share_what_it_has(run: Run) -> None:
    async def scenario() -> None:
        thread, function = ModelThread(), limited_function(instances=2)
        Two.begin(None)
        shared = Shared.of(function, thread, monotonic)
        old, new = (Servable(Handler(function), shared, version) for version in ("1", "2"))
        await old.open()
        await new.open()
        async with ending(thread, old, new):
            await asyncio.gather(*(outcome(one.engines["/"], call(xs=x)) for x in range(20) for one in (old, new)))
        assert Two.most == 1

    run(scenario())


@pytest.mark.parametrize(("limit", "most"), [(copies(), 1), (None, 2)])
def test_d8_variants_that_share_a_resource_never_run_at_once(
    run: Run, limit: RateLimit | None, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAAS_HOME", str(tmp_path))

    async def scenario() -> None:
        running: list[str] = []
        seen: list[int] = []

        async def answered(name: str, xs: list[int]) -> list[int]:
            running.append(name)
            seen.append(len(running))
            await asyncio.sleep(0.002)
            running.remove(name)
            return xs

        class Pair:
            @variant
            async def one(self, xs: list[int]) -> list[int]:
                return await answered("one", xs)

            @variant
            async def other(self, xs: list[int]) -> list[int]:
                return await answered("other", xs)

        function = inference_function(
            batching=Batching(max_batch_size=1, rate_limit=limit), selection=Selection(policy="exp4")
        )(Pair)
        thread = ModelThread()
        servable = Servable(Handler(function), Shared.of(function, thread, monotonic), "1")
        await servable.open()
        async with ending(thread, servable):
            assert await asyncio.gather(*(outcome(servable.engines["/"], call(xs=x)) for x in range(10))) == [
                *range(10)
            ]
        assert max(seen) == most

    run(scenario())


class Two:
    """Two endpoints, and how many of their batches ran at once in this process."""

    lock = threading.Lock()
    barrier: threading.Barrier | None = None
    running = most = 0

    @classmethod
    def begin(cls, barrier: threading.Barrier | None) -> None:
        cls.barrier, cls.running, cls.most = barrier, 0, 0

    def predict(self, xs: list[int]) -> list[int]:
        return self._answered(xs)

    @endpoint("/other")
    def other(self, xs: list[int]) -> list[int]:
        return self._answered(xs)

    def _answered(self, xs: list[int]) -> list[int]:
        with Two.lock:
            Two.running += 1
            Two.most = max(Two.most, Two.running)
        if Two.barrier is not None:
            Two.barrier.wait()
        with Two.lock:
            Two.running -= 1
        return xs


def limited_function(*, instances: int, **limit: Any) -> Any:
    batching = Batching(max_batch_size=1, instances=instances, rate_limit=copies(**limit))
    decorate: Callable[[type], Any] = inference_function(batching=batching)
    return decorate(Two)


@contextlib.asynccontextmanager
async def ending(thread: ModelThread, *servables: Servable) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for servable in servables:
            await servable.close()
        assert await thread.close(LONG_S)
