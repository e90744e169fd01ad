"""Items of several rows, from the call to the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from faas.engine.rows import Rows
from faas.errors import BadInput, HandlerError, QueueFull
from faas.messages import Call, Context
from faas.spec import Batching, QueuePolicy

from .conftest import Run
from .rig import Gate, call, outcome, outcomes, serving, settled


def test_ba_06_rows_are_counted_and_the_model_never_sees_more_than_the_limit(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            return [x * 10 for x in xs]

        batching = Batching(max_batch_size=8, rows=True)
        async with serving(predict, batching=batching, form=Rows({})) as engine:
            made = [call(xs=[n, n + 1, n + 2]) for n in range(0, 15, 3)]
            got = await outcomes(engine, *made)
            assert got == [[10 * n, 10 * n + 10, 10 * n + 20] for n in range(0, 15, 3)]
            assert sizes == [6, 6, 3]
            assert [one.batch_size for one in made] == [6, 6, 6, 6, 3]
            assert await outcome(engine, call(xs=list(range(20)))) == [10 * x for x in range(20)]
        assert max(sizes) <= 8
        assert sizes[3:] == [8, 8, 4]

    run(scenario())


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_ba_06_rows_of_arrays_are_concatenated_and_given_back(run: Run, library: str) -> None:
    made: Any = np if library == "numpy" else torch

    def rows(num: int, start: int) -> Any:
        return made.arange(start, start + 2 * num).reshape(num, 2)

    async def scenario() -> None:
        shapes: list[tuple[int, ...]] = []

        def predict(xs: Any, names: list[str]) -> Any:
            assert len(xs) == len(names)
            shapes.append(tuple(xs.shape))
            return xs * 2

        batching = Batching(max_batch_size=4, rows=True, allowed_batch_sizes=(2, 4))
        async with serving(predict, batching=batching, form=Rows({"xs": library})) as engine:
            calls = [call(xs=rows(n, n), names=list("abcdefg")[:n]) for n in (1, 2, 7)]
            got = await outcomes(engine, *calls)
        for one, n in zip(got, (1, 2, 7), strict=True):
            assert type(one) is type(rows(1, 0))
            assert one.tolist() == (rows(n, n) * 2).tolist()
        assert set(shapes) <= {(2, 2), (4, 2)}, "padding rows are there for the model and for nobody else"

    run(scenario())


def test_rows_of_unequal_shape_are_run_apart(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: np.ndarray) -> np.ndarray:
            return xs.sum(axis=1)

        async with serving(predict, batching=Batching(rows=True), form=Rows({"xs": "numpy"})) as engine:
            got = await outcomes(engine, call(xs=np.ones((2, 3))), call(xs=np.ones((1, 5))), call(xs=np.ones((1, 3))))
        assert [one.tolist() for one in got] == [[3.0, 3.0], [5.0], [3.0]]

    run(scenario())


def test_one_bad_row_fails_its_item_and_no_other(run: Run) -> None:
    async def scenario() -> None:
        def returns(xs: list[int]) -> list[Any]:
            return [ValueError("odd one") if x == 7 else x for x in xs]

        def raises(xs: list[int]) -> list[Any]:
            if 7 in xs:
                raise BadInput("odd one")
            return list(xs)

        for predict in (returns, raises):
            async with serving(predict, batching=Batching(rows=True), form=Rows({})) as engine:
                got = await outcomes(engine, call(xs=[1, 2]), call(xs=[6, 7]), call(xs=[8]))
            assert [got[0], got[2]] == [[1, 2], [8]]
            assert isinstance(got[1], BadInput)
            assert "odd one" in str(got[1])

    run(scenario())


def test_an_item_in_parts_fails_with_the_part_that_failed(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: list[int]) -> list[Any]:
            return [ValueError("odd one") if x == 7 else x for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4, rows=True), form=Rows({})) as engine:
            got = await outcomes(engine, call(xs=list(range(10))), call(xs=[1]))
            await settled(lambda: (engine.num_queued, engine.num_running) == (0, 0))
        assert isinstance(got[0], BadInput)
        assert got[1] == [1]

    run(scenario())


def test_the_parts_of_an_item_are_taken_together_or_not_at_all(run: Run) -> None:
    async def scenario() -> None:
        gate, ran = Gate(), list[Any]()

        def predict(xs: list[Any]) -> list[Any]:
            ran.extend(xs)
            if "gate" in xs:
                gate.pass_through()
            return xs

        batching = Batching(max_batch_size=2, rows=True, idle="now")
        async with serving(predict, batching=batching, max_queue=4, form=Rows({})) as engine:
            first = call(xs=["gate"])
            engine.submit(first)
            await gate.entered()
            with pytest.raises(QueueFull):
                engine.submit(call(xs=list(range(6))))
            assert engine.num_queued == 0
            left = call(xs=[1, 2, 3])
            engine.submit(left)
            assert engine.num_queued == 2
            left.leave()
            assert engine.num_queued == 0
            gate.open()
            assert await first.result() == ["gate"]
        assert ran == ["gate"]

    run(scenario())


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"xs": []}, "at least one row"),
        ({"xs": [1, 2], "ys": [1]}, "xs has 2, ys has 1"),
        ({"xs": 5}, "xs holds no rows"),
        ({"xs": "text"}, "xs holds no rows"),
    ],
)
def test_an_item_whose_rows_cannot_be_counted_is_refused(run: Run, kwargs: dict[str, Any], words: str) -> None:
    async def scenario() -> None:
        async with serving(lambda xs, ys: xs, batching=Batching(rows=True), form=Rows({})) as engine:
            got = await outcome(engine, call(**kwargs))
        assert isinstance(got, BadInput)
        assert words in str(got)

    run(scenario())


@pytest.mark.parametrize(("policy", "most"), [({}, 11), ({"queue": QueuePolicy(max_queue=3)}, 3)])
def test_ba_06_an_item_that_can_never_wait_is_not_told_to_try_again(run: Run, policy: Any, most: int) -> None:
    async def scenario() -> None:
        batching = Batching(max_batch_size=4, rows=True, **policy)
        async with serving(lambda xs: xs, batching=batching, form=Rows({}), max_queue=7) as engine:
            assert await outcome(engine, call(xs=list(range(most)))) == list(range(most))
            error = await outcome(engine, call(xs=list(range(most + 1))))
        assert isinstance(error, BadInput)
        assert f"has {most + 1} rows, and at most {most} may wait" in str(error)

    run(scenario())


def test_a_wrong_number_of_rows_is_named(run: Run) -> None:
    async def scenario() -> None:
        async with serving(lambda xs: xs[1:], batching=Batching(rows=True), form=Rows({})) as engine:
            got = await outcomes(engine, call(xs=[1, 2]), call(xs=[3]))
        assert all(isinstance(one, HandlerError) and "2 values for 3 items" in str(one) for one in got)

    run(scenario())


def test_every_row_has_its_context(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: list[int], context: list[Context]) -> list[str]:
            return [one.request_id for one in context]

        async with serving(predict, batching=Batching(rows=True), form=Rows({}), context="context") as engine:
            made = [Call({"xs": [1, 2]}, Context("a")), Call({"xs": [3]}, Context("b"))]
            assert await outcomes(engine, *made) == [["a", "a"], ["b"]]

    run(scenario())


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 3))
def test_joining_and_splitting_rows_are_each_others_inverse(counts: list[int], extra: int) -> None:
    form = Rows({"y": "numpy"})
    calls = []
    for at, count in enumerate(counts):
        calls.append(Call({"x": [at] * count, "y": np.full((count, 2), at)}, Context("r")))
        calls[-1].num_rows = form.count(calls[-1].kwargs)
    num = sum(counts) + extra
    arguments = form.arguments(calls, num)
    assert len(arguments["x"]) == len(arguments["y"]) == num
    assert form.values(arguments["x"], calls, num, "f") == [call.kwargs["x"] for call in calls]
    for found, one in zip(form.values(arguments["y"], calls, num, "f"), calls, strict=True):
        assert np.array_equal(found, one.kwargs["y"])


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_ba_03_what_some_callers_leave_out_is_none_for_their_rows(run: Run, library: str) -> None:
    made: Any = np if library == "numpy" else torch

    def predict(xs: Any, names: list[str | None], weights: Any = None) -> list[str]:
        given = [None] * len(xs) if weights is None else weights.tolist()
        return [f"{x} {name} {weight}" for x, name, weight in zip(xs.tolist(), names, given, strict=True)]

    async def scenario() -> None:
        batching = Batching(max_batch_size=4, wait_ms=100, idle="wait", rows=True, allowed_batch_sizes=(4,))
        form = Rows({"xs": library, "weights": library})
        async with serving(predict, batching=batching, form=form) as engine:
            bare = call(xs=made.arange(2), names=None, weights=None)
            full = call(xs=made.arange(1), names=["a"], weights=made.ones(1))
            long = call(xs=made.arange(6), names=None, weights=None)
            found = await outcomes(engine, bare, full, long)
        assert found == [
            ["0 None None", "1 None None"],
            ["0 a 1.0"],
            [f"{n} None None" for n in range(6)],
        ]

    run(scenario())
