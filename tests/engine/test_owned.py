"""Answers are what they were when the handler gave them, whatever it does to them afterwards."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch

from faas import codec
from faas.engine.outcomes import Raised
from faas.engine.owned import owned
from faas.messages import END
from faas.spec import Batching

from .conftest import Run
from .rig import call, events, outcomes, serving


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    a: int
    b: Any


@dataclass
class Point:
    x: Any


class Kept(msgspec.Struct, rename="camel"):
    some_x: Any


@dataclass
class Figure:
    shape: str = "circle"


class Opaque: ...


ANSWERS: list[Any] = [
    {"a": [1, {"b": 2.5}], "c": None, 3: True},
    {np.int64(1): [1], None: {"x": [2]}, True: 3},
    [math.nan, math.inf, 2**70, "\ud800"],
    (1, [2], {3}),
    Pair(1, [2]),
    Point([Point(1)]),
    Kept([Kept(1)]),
    [Colour.RED, b"x"],
    deque([1, 2]),
    np.arange(6.0).reshape(2, 3),
    [np.arange(3), {"y": np.float32(0.5)}],
    np.ma.masked_array([1, 2], mask=[0, 1]),
    torch.arange(4).reshape(2, 2),
    {"logits": torch.ones(2, requires_grad=True) * 2},
    np.float64(1.5),
    torch.tensor(2.5),
    Figure(),
    [Figure()],
    {"figures": [[Figure()]]},
]


@pytest.mark.parametrize("value", ANSWERS, ids=lambda value: type(value).__name__)
def test_it_is_written_as_what_was_given(value):
    assert codec.encode(owned(value)) == codec.encode(value)


def test_what_changes_later_is_not_in_it():
    held: dict[str, Any] = {"list": [1], "deep": [{"x": 1}], "array": np.zeros(2), "tensor": torch.zeros(2)}
    taken, written = owned(held), codec.encode(held)
    held["list"].append(2)
    held["deep"][0]["x"] = 2
    held["array"] += 1
    held["tensor"] += 1
    assert codec.encode(taken) == written
    odd = {np.int64(1): [1]}
    taken = owned(odd)
    odd[np.int64(1)].append(2)
    assert json.loads(codec.encode(taken)) == {"1": [1]}


@pytest.mark.parametrize(
    "value", ["text", 1, 1.5, True, None, b"raw", END, Raised(ValueError()), ValueError("x"), Opaque(), Opaque]
)
def test_what_cannot_change_or_is_no_answer_is_itself(value):
    assert owned(value) is value


def test_bytes_that_can_change_are_taken_as_they_are():
    held = bytearray(b"ab")
    taken = owned(held), owned(memoryview(held))
    held[:] = b"cd"
    assert taken == (b"ab", b"ab")


def test_what_holds_itself_is_left_alone():
    held: list[Any] = []
    held.append(held)
    assert isinstance(owned(held), list)


def test_an_opaque_part_is_left_alone_and_the_rest_taken():
    part = Opaque()
    held = {"part": part, "rest": [1]}
    taken = owned(held)
    held["rest"].append(2)
    assert taken["part"] is part
    assert taken["rest"] == [1]


def grow(n: int) -> Iterator[Any]:
    held: dict[str, Any] = {"text": "", "steps": [{"n": 0}]}
    for step in range(n):
        held["text"] += str(step)
        held["steps"][0]["n"] = step
        yield held


async def grow_later(n: int) -> AsyncIterator[Any]:
    for held in grow(n):
        yield held


def grow_together(ns: list[int]) -> Iterator[list[Any]]:
    slots: list[Any] = [[] for _ in ns]
    for step in range(max(ns)):
        for held in slots:
            held.append(step)
        yield slots


@pytest.mark.parametrize(("handler", "kind"), [(grow, "generator"), (grow_later, "async_generator")])
def test_a_generator_may_go_on_with_what_it_yielded(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind) as engine:
            found = await events(engine, call(n=3))
        assert [event["text"] for event in found] == ["0", "01", "012"]
        assert [event["steps"] for event in found] == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]

    run(scenario())


def test_so_may_a_batched_one(run: Run) -> None:
    async def scenario() -> None:
        async with serving(grow_together, "generator", Batching(max_batch_size=4)) as engine:
            assert await events(engine, call(ns=3)) == [[0], [0, 1], [0, 1, 2]]

    run(scenario())


STATE: dict[str, Any] = {"x": 0, "deep": [0]}
BUFFER = np.zeros((8, 2))
TENSORS = torch.zeros(8, 2)


def state(x: int) -> Any:
    STATE["x"] = STATE["deep"][0] = x
    return STATE


async def state_later(x: int) -> Any:
    return state(x)


def buffered(x: list[int]) -> Any:
    BUFFER[: len(x)] = np.asarray(x)[:, None]
    return BUFFER[: len(x)]


def buffered_tensors(x: list[int]) -> Any:
    TENSORS[: len(x)] = torch.tensor(x)[:, None]
    return TENSORS[: len(x)]


def rows_of_a_buffer(x: list[int]) -> Any:
    return list(buffered(x))


@pytest.mark.parametrize(
    ("handler", "kind", "size"),
    [
        (state, "plain", None),
        (state_later, "async", None),
        (buffered, "plain", 1),
        (buffered, "plain", 2),
        (buffered_tensors, "plain", 2),
        (rows_of_a_buffer, "plain", 2),
    ],
)
def test_a_handler_may_use_again_what_it_returned(run: Run, handler: Any, kind: str, size: int | None) -> None:
    async def scenario() -> None:
        batching = None if size is None else Batching(max_batch_size=size)
        async with serving(handler, kind, batching, max_inputs=1) as engine:
            calls = [call(x=x) for x in range(6)]
            for one in calls:
                engine.submit(one)
            found = [await one.result() for one in calls]
        wanted = [{"x": x, "deep": [x]} if size is None else [x, x] for x in range(6)]
        assert [one if isinstance(one, dict) else one.tolist() for one in found] == wanted

    run(scenario())


def copied_late(x: int) -> Any:
    """As with a device that tells of an error only when its results are copied."""
    return torch.ones(1, device="meta") if x == 3 else [x]


def copied_late_together(x: list[int]) -> Any:
    return [copied_late(each) for each in x]


async def copied_late_on_loop(x: list[int]) -> Any:
    return copied_late_together(x)


@pytest.mark.parametrize(
    ("handler", "kind", "size"),
    [
        (copied_late, "plain", None),
        (copied_late_together, "plain", 1),
        (copied_late_together, "plain", 8),
        (copied_late_on_loop, "async", 8),
    ],
)
def test_an_answer_that_cannot_be_copied_is_an_error_of_its_item_alone(
    run: Run, handler: Any, kind: str, size: int | None
) -> None:
    async def scenario() -> None:
        batching = None if size is None else Batching(max_batch_size=size, wait_ms=1000)
        async with serving(handler, kind, batching) as engine:
            *found, failed = await outcomes(engine, *(call(x=x) for x in (1, 2, 4, 3)))
        assert found == [[1], [2], [4]]
        assert isinstance(failed, NotImplementedError)

    run(scenario())


def test_a_step_that_cannot_be_copied_ends_its_streams_with_the_reason(run: Run) -> None:
    def grow(ns: list[int]) -> Iterator[Any]:
        yield [[1] for _ in ns]
        yield [torch.ones(1, device="meta") for _ in ns]

    async def scenario() -> None:
        async with serving(grow, "generator", Batching(max_batch_size=4)) as engine:
            first, failed = await events(engine, call(ns=3))
        assert first == [1]
        assert isinstance(failed, NotImplementedError)

    run(scenario())
