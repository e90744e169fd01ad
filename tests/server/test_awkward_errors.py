"""Errors of handlers that are hard to tell or to carry: each is a 500 of its own item."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from faas import BadInput, Batching, inference_function
from faas.function import Function
from tests.server.answers import problem
from tests.server.conftest import Serving

pytestmark = pytest.mark.anyio

UNREAD = "(its message cannot be read: IndexError)"


class Weird(Exception):
    """Its message is of an argument that it was not given."""

    def __str__(self) -> str:
        return f"{self.args[1]}"


class WeirdValue(Weird, ValueError):
    pass


def answer(x: int) -> Any:
    if x == -1:
        raise Weird("only")
    if x == -2:
        return WeirdValue("only")
    if x == -3:
        raise StopIteration("the shelf is empty")
    return x


@inference_function
def plain(x: int) -> Any:
    return answer(x)


@inference_function
async def later(x: int) -> Any:
    return answer(x)


@inference_function(batching=Batching(max_batch_size=4, wait_ms=200, idle="wait"))
def batch(xs: list[int]) -> list[Any]:
    return [answer(x) for x in xs]


@inference_function(batching=Batching(max_batch_size=4, wait_ms=200, idle="wait"))
async def later_batch(xs: list[int]) -> list[Any]:
    return [answer(x) for x in xs]


ALL = pytest.mark.parametrize("function", [plain, later, batch, later_batch], ids=lambda function: function.name)


@ALL
@pytest.mark.parametrize(("x", "status", "detail"), [(-1, 500, f"Weird: {UNREAD}"), (-2, 422, f"WeirdValue: {UNREAD}")])
async def test_a_message_that_cannot_be_read(
    serving: Serving, function: Function, x: int, status: int, detail: str
) -> None:
    async with serving(function) as served:
        answers = await asyncio.gather(*(served.post(value) for value in (1, x, 3, 4)))
        assert problem(answers[1], status)["detail"] == detail
        assert [one.json() for one in answers if one.status_code == 200] == [1, 3, 4]


@ALL
async def test_a_stop_iteration(serving: Serving, function: Function) -> None:
    async with serving(function) as served:
        answers = await asyncio.gather(*(served.post(value) for value in (1, -3, 3, 4)))
        said = problem(answers[1], 500)
        assert said["error"] == "StopIteration"
        assert "raised StopIteration: the shelf is empty;" in said["detail"]
        assert [one.json() for one in answers if one.status_code == 200] == [1, 3, 4]


async def test_those_who_failed_together_are_told_of_both(serving: Serving) -> None:
    @inference_function(batching=Batching(max_batch_size=2, wait_ms=200, idle="wait", on_item_error="fail_batch"))
    def predict(xs: list[int]) -> list[Any]:
        return [answer(x) for x in xs]

    async with serving(predict) as served:
        for x, said in ((-1, f"Weird for 2 items together: {UNREAD}"), (-3, "StopIteration for 2 items together: the")):
            for response in await asyncio.gather(served.post(1), served.post(x)):
                assert said in problem(response, 500)["detail"]


async def test_a_message_that_cannot_be_read_ends_a_stream(serving: Serving) -> None:
    @inference_function
    def predict(x: int) -> Iterator[int]:
        yield x
        raise Weird("only")

    async with serving(predict) as served:
        response = await served.post(1, headers={"Accept": "text/event-stream"})
        assert response.status_code == 200
        assert response.text.startswith("data: 1\n\nevent: error\n")
        assert f"Weird: {UNREAD}" in response.text


UNKNOWN = BadInput("there is no such thing")
BROKEN = RuntimeError("it is broken")


def always(x: int) -> Any:
    if x == 1:
        return UNKNOWN
    raise UNKNOWN if x == 2 else BROKEN


@pytest.mark.parametrize("x", [1, 2, 3])
@pytest.mark.parametrize("kind", ["plain", "batched", "async", "stream"])
async def test_one_object_that_is_the_error_of_many_calls_holds_nothing_of_them(
    serving: Serving, kind: str, x: int
) -> None:
    def plain_one(x: int) -> Any:
        return always(x)

    async def async_one(x: int) -> Any:
        return always(x)

    def batched_one(xs: list[int]) -> list[Any]:
        return [always(x) for x in xs]

    def stream_one(x: int) -> Iterator[Any]:
        yield always(x)

    handlers: dict[str, Any] = {"plain": plain_one, "async": async_one, "batched": batched_one, "stream": stream_one}
    options = {"batching": Batching(max_batch_size=2)} if kind == "batched" else {}
    async with serving(inference_function(name="f", **options)(handlers[kind])) as served:
        for _ in range(20):
            events = {"headers": {"Accept": "text/event-stream"}} if kind == "stream" else {}
            answer = await served.post(x, **events)
            problem(answer, 422 if x < 3 else 500)
        error = UNKNOWN if x < 3 else BROKEN
        assert len(traceback.extract_tb(error.__traceback__)) < 15
