"""Handlers that change what they are given get it as it was sent, however often they are called with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from faas import inference_function
from faas.engine import inputs
from faas.engine.owned import MANY
from faas.engine.rows import Rows
from faas.engine.work import Stacked
from faas.errors import BadInput
from faas.spec import Batching, Pad

from .conftest import Run
from .rig import call, events, outcomes, serving, serving_of

TOGETHER = Batching(max_batch_size=4, wait_ms=200, idle="wait")


@dataclass
class Order:
    """Something that a handler may change."""

    text: str
    tags: list[str]


def take(item: dict[str, Any]) -> int:
    """Use an item up."""
    if item["x"] < 0:
        raise BadInput("negative")
    item["seen"].append(item["x"])
    return 10 * item.pop("x") + len(item["seen"])


def each(items: list[dict[str, Any]]) -> list[int]:
    return [take(item) for item in items]


async def each_later(items: list[dict[str, Any]]) -> list[int]:
    return each(items)


def each_step(items: list[dict[str, Any]]) -> Iterator[list[int]]:
    yield each(items)


def sent(*numbers: int) -> list[Any]:
    return [call(items={"x": number, "seen": []}) for number in numbers]


@pytest.mark.parametrize(("handler", "kind"), [(each, "plain"), (each_later, "async")])
def test_ba_01_an_item_that_is_run_again_is_as_it_was_sent(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind, TOGETHER) as engine:
            for bad in range(4):
                found = await outcomes(engine, *sent(*(-1 if at == bad else at for at in range(4))))
                assert isinstance(found.pop(bad), BadInput)
                assert found == [10 * at + 1 for at in range(4) if at != bad]

    run(scenario())


def test_ba_01_so_is_one_of_a_stream(run: Run) -> None:
    async def scenario() -> None:
        async with serving(each_step, "generator", Batching(max_batch_size=2, wait_ms=200, idle="wait")) as engine:
            good, bad = sent(3, -1)
            found = await asyncio.gather(events(engine, good), events(engine, bad))
        assert found[0] == [31]
        assert isinstance(found[1][0], BadInput)

    run(scenario())


def test_the_copies_that_fill_a_batch_up_are_no_item_of_a_caller(run: Run) -> None:
    async def scenario() -> None:
        batching = Batching(max_batch_size=4, allowed_batch_sizes=(4,))
        async with serving(each, batching=batching) as engine:
            assert await outcomes(engine, *sent(3, 7)) == [31, 71]
            assert await outcomes(engine, *sent(5)) == [51]

    run(scenario())


def test_rows_that_fill_a_batch_up_are_no_rows_of_a_caller(run: Run) -> None:
    async def scenario() -> None:
        batching = Batching(max_batch_size=8, rows=True, allowed_batch_sizes=(8,))
        async with serving(each, batching=batching, form=Rows({})) as engine:
            made = [call(items=[{"x": x, "seen": []} for x in xs]) for xs in ((1, 2), (3,))]
            assert await outcomes(engine, *made) == [[11, 21], [31]]

    run(scenario())


def test_an_item_that_a_collate_fills_up_in_place_is_run_again_as_it_was_sent(run: Run) -> None:
    def fill(items: dict[str, list[list[int]]], length: int) -> dict[str, Any]:
        for item in items["xs"]:
            item += [0] * (length - len(item))
        return {"xs": np.array(items["xs"])}

    @inference_function(batching=Batching(max_batch_size=4, wait_ms=200, idle="wait", pad=Pad(collate=fill)))
    def lengths(xs: list[list[int]]) -> list[list[int]]:
        if (np.asarray(xs) < 0).any():
            raise BadInput("negative")
        return np.asarray(xs).tolist()

    async def scenario() -> None:
        async with serving_of(lengths) as engine:
            found = await outcomes(engine, call(xs=[1]), call(xs=[2, 2, 2]), call(xs=[-1]), call(xs=[3, 3]))
        assert isinstance(found.pop(2), BadInput)
        assert found == [[1], [2, 2, 2], [3, 3]]

    run(scenario())


def test_what_no_handler_can_change_is_not_kept() -> None:
    calls = [call(text="a", n=1, flag=True, rate=0.5, nothing=None, raw=b"x"), call(text="b")]
    assert inputs.kept(calls, ()) is None
    arrays = [call(x=np.zeros(2)), call(x=np.ones(2))]
    assert inputs.kept(arrays, Stacked({"x": np.stack}).copied) is None
    assert inputs.kept(arrays, Stacked().copied) is not None


def test_what_is_kept_comes_back_as_new_objects() -> None:
    order = Order("a", ["b"])
    one = call(order=order, text="kept as it is")
    kept = inputs.kept([one], ())
    assert kept is not None
    order.text, order.tags[0] = "changed", "changed"
    for _ in range(2):
        kept.restore([one])
        assert one.kwargs == {"order": Order("a", ["b"]), "text": "kept as it is"}
        one.kwargs["order"].tags.clear()


@pytest.mark.parametrize("odd", [lambda: None, [0.0] * (MANY + 1)], ids=["no pickle", "large"])
def test_what_is_not_kept_stays_as_the_handler_left_it(odd: Any) -> None:
    one, other = call(x=odd), call(x=["b"])
    kept = inputs.kept([one, other], ())
    assert kept is not None
    other.kwargs["x"].clear()
    kept.restore([one, other])
    assert one.kwargs["x"] is odd
    assert other.kwargs["x"] == ["b"]


def test_copies_are_apart_where_they_can_be() -> None:
    first, second = inputs.copies({"x": [1]}, 2)
    first["x"].append(2)
    assert second == {"x": [1]}
    assert inputs.copies("text", 2) == ["text", "text"]
    lock = threading.Lock()
    assert inputs.copies(lock, 1) == [lock]
