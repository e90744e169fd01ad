from __future__ import annotations

import numpy as np

from faas.engine.work import Stacked, Work
from faas.messages import Call, Context


def handler(**kwargs: object) -> object:
    return kwargs


def calls(*values: object) -> list[Call]:
    return [Call({"x": value, "n": at}, Context(f"r{at}")) for at, value in enumerate(values)]


def test_unbatched_the_arguments_are_the_callers() -> None:
    one = calls("a")
    assert Work(handler, "plain").arguments(one) == {"x": "a", "n": 0}
    assert Work(handler, "plain", context="c").arguments(one) == {"x": "a", "n": 0, "c": one[0].context}


def test_batched_each_parameter_is_a_list_and_so_is_the_context() -> None:
    two = calls("a", "b")
    assert Work(handler, "plain", batched=True, context="c").arguments(two, 2) == {
        "x": ["a", "b"],
        "n": [0, 1],
        "c": [two[0].context, two[1].context],
    }


def test_a_parameter_may_be_collated() -> None:
    work = Work(handler, "plain", batched=True, form=Stacked({"x": np.stack, "absent": np.stack}))
    stacked = work.arguments(calls(np.zeros(3), np.ones(3)), 2)
    assert stacked["x"].shape == (2, 3)
    assert stacked["n"] == [0, 1]


def test_only_what_is_collated_must_be_alike() -> None:
    mixed = calls(np.zeros(2), np.zeros(3), np.ones(2), np.zeros(2, "float32"), [1, 2])
    assert Work(handler, "plain", batched=True).alike(mixed) == [mixed]
    groups = Work(handler, "plain", batched=True, form=Stacked({"x": np.stack})).alike(mixed)
    assert groups == [[mixed[0], mixed[2]], [mixed[1]], [mixed[3]], [mixed[4]]]


def test_kinds_say_where_they_run_and_whether_they_stream() -> None:
    table = {kind: (Work(handler, kind).on_loop, Work(handler, kind).streams) for kind in
             ("plain", "async", "generator", "async_generator")}  # fmt: skip
    assert table == {
        "plain": (False, False),
        "async": (True, False),
        "generator": (False, True),
        "async_generator": (True, True),
    }


def test_messages_name_the_handler() -> None:
    assert Work(handler, "plain").title == "handler"


def test_an_array_that_was_left_out_is_none_for_all_of_its_batch() -> None:
    work = Work(handler, "plain", batched=True, form=Stacked({"x": np.stack}))
    mixed = calls(np.zeros(2), None, np.ones(2), None)
    assert work.alike(mixed) == [[mixed[0], mixed[2]], [mixed[1], mixed[3]]]
    assert work.arguments([mixed[1], mixed[3]], 3) == {"x": None, "n": [1, 3, 3]}
