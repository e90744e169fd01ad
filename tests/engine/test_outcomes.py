from __future__ import annotations

import array
import asyncio
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
import torch

from faas.engine.outcomes import (
    Attempt,
    Raised,
    advance,
    as_raised,
    presentable,
    returned_error,
    settle,
    shared,
    slots,
)
from faas.engine.refusals import engine_failed
from faas.errors import BadInput, HandlerError, SchemaMismatch
from faas.messages import END, Call, Context
from faas.spec import Batching

from .conftest import Run
from .rig import call, outcome, outcomes, serving


class Rows:
    """A sequence that says so only by its methods."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> int:
        return [5, 6][at]


@pytest.mark.parametrize(
    "returned",
    [
        [5, 6],
        (5, 6),
        np.array([5, 6]),
        torch.tensor([5, 6]),
        deque([5, 6]),
        range(5, 7),
        array.array("i", [5, 6]),
        Rows(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_sequence_or_array_is_taken_apart(returned: Any) -> None:
    assert [int(value) for value in slots(returned, 2, "predict")] == [5, 6]


class Unsized:
    def __getitem__(self, at: int) -> int:
        return at

    def __len__(self) -> int:
        raise RuntimeError("not yet counted")


class Closed(Unsized):
    def __getitem__(self, at: int) -> int:
        raise RuntimeError("the file is closed")

    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (scipy.sparse.csr_matrix(np.eye(2)), "f gave a csr_matrix for 2 items; give a list or an array of 2 values"),
        (scipy.sparse.coo_array(np.eye(2)), "f gave a coo_array for 2 items; give a list or an array of 2 values"),
        (Unsized(), "f gave an Unsized for 2 items; give a list or an array"),
        (Closed(), "f gave a Closed whose values cannot be had: RuntimeError: the file is closed"),
    ],
    ids=["csr", "coo", "unsized", "closed"],
)
def test_what_will_not_be_taken_apart_is_named_and_is_no_fault_of_the_engine(
    run: Run, returned: Any, said: str
) -> None:
    def f(xs: list[int]) -> Any:
        return returned

    f.__qualname__ = "f"

    async def scenario() -> None:
        async with serving(f, batching=Batching(max_batch_size=2, wait_ms=1000)) as engine:
            for failed in await outcomes(engine, call(xs=1), call(xs=2)):
                assert type(failed) is HandlerError
                assert str(failed).startswith(said)

    run(scenario())


def test_rows_of_arrays_are_items() -> None:
    rows = slots(np.arange(6).reshape(2, 3), 2, "predict")
    assert [row.tolist() for row in rows] == [[0, 1, 2], [3, 4, 5]]


class Frame(Rows):
    columns = ("a", "b")


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        ({"a": 1, "b": 2}, "a dict"),
        ("ab", "a str"),
        (b"ab", "a bytes"),
        (bytearray(2), "a bytearray"),
        (memoryview(b"ab"), "a memoryview"),
        ({1, 2}, "a set"),
        ((value for value in (1, 2)), "a generator"),
        (None, "None"),
        (5, "an int"),
        (np.float64(3), "a float64"),
        (np.array(3), "a ndarray"),
        (torch.tensor(3), "a Tensor"),
        (Frame(), "a Frame"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_sequence_of_items_is_refused_by_name(returned: Any, named: str) -> None:
    with pytest.raises(HandlerError, match=f"predict gave {named} for 2 items; give a list or an array of 2 values"):
        slots(returned, 2, "predict")


@pytest.mark.parametrize(
    ("num_given", "said"), [(1, "1 value for 4 items"), (5, "5 values for 4 items"), (0, "0 values")]
)
def test_a_wrong_length_names_both(num_given: int, said: str) -> None:
    for kind in (list, np.array):
        with pytest.raises(HandlerError, match=f"predict gave {said}.*exactly one for each item"):
            slots(kind([0] * num_given), 4, "predict")


@pytest.mark.parametrize(
    "error", [ValueError("too long"), TypeError("no text"), UnicodeDecodeError("utf-8", b"", 0, 1, "x")]
)
def test_a_returned_complaint_about_input_is_bad_input(error: Exception) -> None:
    bad = returned_error(error)
    assert isinstance(bad, BadInput)
    assert str(bad) == f"{type(error).__name__}: {error}"
    assert bad.__cause__ is error


@pytest.mark.parametrize("error", [SchemaMismatch("no", "$.a"), KeyError("k"), RuntimeError("broken")])
def test_every_other_returned_error_stays_what_it_is(error: Exception) -> None:
    assert returned_error(error) is error


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(4),
        StopAsyncIteration(),
        asyncio.CancelledError(),
    ],
)
def test_what_would_upset_the_loop_is_wrapped(error: BaseException) -> None:
    wrapped = presentable(error)
    assert isinstance(wrapped, HandlerError)
    assert wrapped.__cause__ is error
    assert "not the server" in str(wrapped)


def test_who_failed_together_is_not_told_that_it_was_his_own_input() -> None:
    error = BadInput("no text")
    assert shared(error, 1, "predict") is error
    several = shared(error, 3, "predict")
    assert type(several) is HandlerError
    assert str(several) == "predict raised BadInput for 3 items together: no text"


class Weird(Exception):
    """Neither its message nor its repr can be read."""

    def __str__(self) -> str:
        return f"{self.args[1]}"

    __repr__ = __str__


class WeirdValue(Weird, ValueError):
    pass


class WeirdExit(SystemExit):
    __str__ = __repr__ = Weird.__str__


def test_an_error_whose_message_cannot_be_read_is_still_told() -> None:
    unread = "(its message cannot be read: IndexError)"
    assert str(returned_error(WeirdValue(1))) == f"WeirdValue: {unread}"
    assert f"raised WeirdExit: {unread};" in str(presentable(WeirdExit(1)))
    assert str(shared(Weird(1), 2, "predict")) == f"predict raised Weird for 2 items together: {unread}"
    assert f"(Weird: {unread})" in str(engine_failed(Weird(1)))


def test_only_what_a_coroutine_made_of_a_stop_iteration_is_unmade() -> None:
    async def stops() -> None:
        raise StopIteration("empty")

    with pytest.raises(RuntimeError) as caught:
        asyncio.run(stops())
    assert as_raised(caught.value) is caught.value.__cause__
    own = RuntimeError("nothing left")
    own.__cause__ = StopIteration("empty")
    for error in (own, RuntimeError("coroutine raised StopIteration"), ValueError("x")):
        assert as_raised(error) is error


def made() -> Call:
    return Call({}, Context("request"))


def test_settling_stamps_each_call_and_skips_those_that_are_done() -> None:
    calls = [made(), made(), made(), made()]
    calls[1].leave()
    settle(Attempt(calls, ["a", "b", ValueError("c"), Raised(ValueError("d"))], 1.0, 2.0))
    assert [(call.started_at, call.ended_at, call.batch_size) for call in calls] == [
        (1.0, 2.0, 4),
        (0.0, 0.0, 0),
        (1.0, 2.0, 4),
        (1.0, 2.0, 4),
    ]
    assert asyncio.run(calls[0].result()) == "a"
    with pytest.raises(BadInput):
        asyncio.run(calls[2].result())
    with pytest.raises(ValueError, match=r"^d$"):
        asyncio.run(calls[3].result())


def test_a_step_puts_values_and_ends_the_streams_that_ended() -> None:
    calls = [made(), made(), made(), made()]
    calls[3].leave()
    advance(Attempt(calls, ["a", END, RuntimeError("c"), "d"], 1.0, 2.0))
    assert [call.done for call in calls] == [False, True, True, True]
    assert [call.backlog for call in calls] == [1, 0, 0, 0]
    assert [call.started_at for call in calls] == [1.0, 1.0, 1.0, 0.0]
    assert [call.ended_at for call in calls] == [0.0, 2.0, 2.0, 0.0]
    advance(Attempt([calls[0]], ["b"], 1.0, 3.0))
    assert (calls[0].backlog, calls[0].batch_size) == (2, 4)


class Named(NamedTuple):
    labels: list[str]
    scores: list[float]


@pytest.mark.parametrize("num", [1, 2, 3])
@pytest.mark.parametrize(
    "record",
    [Named(["a", "b"], [0.5, 0.25]), torch.topk(torch.eye(2), 2), torch.eye(2).max(1)],
    ids=["named", "topk", "max"],
)
def test_the_fields_of_a_record_are_not_taken_for_the_values_of_items(record: Any, num: int) -> None:
    with pytest.raises(HandlerError, match=r"f gave a \w+, whose 2 fields are no items, for \d items?; .*zip"):
        slots(record, num, "f")


@pytest.mark.parametrize(
    "columns",
    [
        (np.arange(2), np.ones(2)),
        (torch.ones(2, 3), torch.ones(2)),
        (["a", "b"], [0.5, 0.6]),
        (["a", "b"], np.ones(2)),
        [np.ones((2, 3), "float32"), np.arange(2)],  # as onnxruntime gives a model's outputs
        [np.ones((2, 3)), np.ones(2)],
    ],
)
def test_as_many_columns_as_there_are_items_are_not_taken_for_their_values(columns: Any) -> None:
    with pytest.raises(HandlerError, match=r"f gave a (tuple|list) of 2 columns of unlike values for 2 items; .*zip"):
        slots(columns, 2, "f")


@pytest.mark.parametrize(
    "returned",
    [
        torch.ones(2, 2).unbind(0),
        (np.ones(2), np.zeros(2)),
        (np.ones(2), np.ones(3, int)),
        ([1, 2], [0.5, 4]),
        ([None, "a"], ["b", "c"]),
        ("ab", "cd"),
        (1, [2, 3]),
        ([], []),
        (np.float32(1), np.ones(2)),
        [np.ones((2, 7)), np.ones((2, 9))],
        [np.ones(2), BadInput("x")],
        [np.ones(2), None],
    ],
)
def test_values_are_taken_one_for_each_item(returned: Any) -> None:
    assert all(one is other for one, other in zip(slots(returned, 2, "f"), returned, strict=True))


def test_the_only_error_of_a_task_group_is_what_is_told() -> None:
    bad = BadInput("no")
    assert presentable(ExceptionGroup("tasks", [ExceptionGroup("inner", [bad])])) is bad
    two = ExceptionGroup("tasks", [bad, ValueError("x")])
    assert presentable(two) is two
    cancelled = presentable(BaseExceptionGroup("tasks", [asyncio.CancelledError()]))
    assert "was cancelled from within" in str(cancelled)


def test_a_handlers_task_group_fails_as_its_task_did(run: Run) -> None:
    async def refuse() -> None:
        raise BadInput("no")

    async def handler(x: int) -> int:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(refuse())
        return x

    async def scenario() -> None:
        async with serving(handler, "async") as engine:
            assert isinstance(await outcome(engine, call(x=1)), BadInput)

    run(scenario())
