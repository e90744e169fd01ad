"""Large answers: what is written of them is what is written of any."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from faas import codec, large_answer
from faas.engine.owned import MANY, is_large, num_values, owned
from faas.errors import HandlerError

NUM = MANY + 10_000

LARGE: dict[str, Any] = {
    "floats": [0.1] * NUM,
    "odd floats": [math.nan, math.inf, 1.5] * (NUM // 3 + 1),
    "texts": ["\ud800", "a"] * (NUM // 2 + 1),
    "rows": [[1.0, 2.0]] * NUM,
    "long rows": [list(range(NUM)), [1, 2], list(range(2 * NUM))],
    "unequal rows": [[1]] * 10 + [list(range(n)) for n in range(0, 2000, 7)],
    "planes": [[[[1, 2, 3]] * 300] * 300],
    "objects": [{"label": "x", "score": 0.5}] * NUM,
    "many keys": {f"k{n}": n for n in range(NUM)},
    "keys of numbers": {n: [n] for n in range(NUM)},
    "few keys": {"a": [1] * NUM, "b": 2, "c": {"d": [[0.5] * 10] * NUM, "e": []}, None: [], True: [True] * NUM},
    "empty between": {"a": {}, "b": [1] * NUM, "c": {}},
    "array": np.arange(float(NUM)),
    "plane": np.arange(float(NUM * 4)).reshape(4, -1),
    "tall": np.arange(NUM * 3).reshape(-1, 3),
    "one row": np.arange(float(NUM)).reshape(1, 1, -1),
    "tensor": torch.arange(NUM * 2).reshape(2, -1),
    "arrays": {"x": np.arange(NUM), "y": [np.arange(3), np.arange(NUM)]},
}


@pytest.mark.parametrize("name", LARGE)
def test_it_is_written_as_the_encoder_writes_it(name):
    value = LARGE[name]
    assert is_large(value) or name == "unequal rows"
    wanted = codec.encode(value)
    assert large_answer.encode([value]) == wanted
    assert codec.encode(owned(value)) == wanted
    assert large_answer.encode([owned(value)]) == wanted


@pytest.mark.parametrize(
    "value",
    [[1, 2], {}, [], {"a": {}}, {"a": [1, 2], "b": "x", "c": []}, "x", None, np.zeros((0, 3)), np.float32(1.5)],
)
def test_so_is_what_is_small(value):
    assert not is_large(value)
    assert large_answer.encode([value]) == codec.encode(value)


@pytest.mark.parametrize("value", [[1] * NUM + [object()], {"a": [1] * NUM, "b": object()}])
def test_what_has_no_json_form_says_so(value):
    with pytest.raises(HandlerError, match="no JSON form"):
        large_answer.encode([value])


def test_what_holds_itself_is_looked_at_in_vain_and_in_no_time():
    held: dict[str, Any] = {}
    held |= {str(n): held for n in range(100)}
    assert num_values(held) >= 100
    listed: list[Any] = []
    listed.append(listed)
    assert num_values(listed) == 1


def test_the_list_that_was_written_is_let_go():
    held = [[0.5] * NUM]
    inner = held[0]
    large_answer.encode([inner])
    assert len(inner) == NUM  # somebody has it
    del inner
    large_answer.encode(held)
    assert held == []
