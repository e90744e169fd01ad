"""A plain handler that does not end: who is told, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from faas.engine.thread import ModelThread
from faas.errors import DeadlineExceeded
from tests.engine.rig import LONG_S, call, serving

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_a_handler_that_goes_on_after_the_time_of_all_its_calls_is_told_of_once(run: Run) -> None:
    async def story() -> None:
        end, told = threading.Event(), asyncio.Event()
        num_told = 0

        def tell() -> None:
            nonlocal num_told
            num_told += 1
            told.set()

        def handler(n: int) -> None:
            end.wait(LONG_S)

        thread = ModelThread()
        thread.watch(0.2, tell)
        async with serving(handler, thread=thread) as engine:
            try:
                for _ in range(2):
                    end.clear()
                    with pytest.raises(DeadlineExceeded):
                        await engine.answer(call(0.05, n=1))
                    await asyncio.wait_for(told.wait(), LONG_S)
                    end.set()
                    assert await engine.answer(call(n=1)) is None
            finally:
                end.set()
        assert num_told == 1

    run(story())


def test_one_that_ends_before_is_nobodys_business(run: Run) -> None:
    async def story() -> None:
        end = threading.Event()
        told: list[None] = []
        thread = ModelThread()
        thread.watch(0.3, lambda: told.append(None))
        async with serving(lambda n: end.wait(LONG_S), thread=thread) as engine:
            with pytest.raises(DeadlineExceeded, match="replaced if it does not end soon"):
                await engine.answer(call(0.05, n=1))
            end.set()
            assert await engine.answer(call(n=1)) is True
            await asyncio.sleep(0.4)
        assert told == []

    run(story())


def test_patience_counts_from_the_beginning_and_not_from_when_a_caller_left(run: Run) -> None:
    async def story() -> None:
        end, begun, told = threading.Event(), asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        began_at = told_at = 0.0

        def tell() -> None:
            nonlocal told_at
            told_at = loop.time()
            told.set()

        def handler(n: int) -> None:
            loop.call_soon_threadsafe(begun.set)
            end.wait(LONG_S)

        thread = ModelThread()
        thread.watch(0.5, tell)
        async with serving(handler, thread=thread) as engine:
            try:
                leaver = call(n=1)
                engine.submit(leaver)
                await begun.wait()
                began_at = loop.time()
                leaver.leave()
                await asyncio.wait_for(told.wait(), LONG_S)
            finally:
                end.set()
        assert told_at - began_at > 0.4

    run(story())


def test_where_nobody_is_told_the_caller_learns_that_the_handler_still_runs(run: Run) -> None:
    async def story() -> None:
        end = threading.Event()
        async with serving(lambda n: end.wait(LONG_S)) as engine:
            with pytest.raises(DeadlineExceeded) as late:
                await engine.answer(call(0.05, n=1))
            end.set()
        assert str(late.value).endswith("its handler still runs")

    run(story())
