"""What is let go of is freed, and what somebody else holds is not touched."""

import gc
import weakref
from typing import Any

import pytest

from faas import large_memory
from faas.large_memory import PutOff, let_go


class Noted(list[Any]):
    """A list that can be watched; no JSON makes one, so it is dropped as it is."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_memory, "NUM_TOGETHER", 16)
    monkeypatch.setattr(large_memory, "LARGE_BYTES", 1 << 14)
    monkeypatch.setattr(large_memory, "PAUSE_S", 0.0)


@pytest.mark.parametrize(
    "wrapped", [lambda x: x, lambda x: [x] * 40, lambda x: {"a": [{"b": x}, 1.5]}], ids=["alone", "in a list", "deep"]
)
def test_all_of_it_is_freed(wrapped: Any) -> None:
    watched = Noted()
    seen = weakref.ref(watched)
    held = [wrapped(watched), b"x" * 100_000, "y" * 100_000, "\u20ac" * 100_000, [0.5] * 1000, [[1, 2]] * 200, {}, None]
    del watched
    let_go(held)
    assert held == []
    assert seen() is None


def test_what_somebody_holds_stays_as_it_is() -> None:
    text, numbers = "y" * 100_000, [x / 2 for x in range(1000)]
    rows, fields = [[x] * 200 for x in range(100)], {"a": [1] * 200}
    row = rows[7]
    data = b"x" * 100_000
    view = memoryview(b"z" * 100_000)
    let_go([{"text": text, "numbers": numbers}, [rows, fields, data], view.obj])
    assert text == "y" * 100_000
    assert numbers == [x / 2 for x in range(1000)]
    assert rows == [[x] * 200 for x in range(100)]
    assert fields == {"a": [1] * 200}
    assert data == b"x" * 100_000
    assert bytes(view) == b"z" * 100_000
    del rows
    let_go([[row, [2] * 200]])
    assert row == [7] * 200


def test_collections_are_as_they_were_once_nobody_puts_them_off() -> None:
    before = gc.get_threshold()
    PutOff.begin()
    PutOff.begin()
    assert gc.get_threshold()[:2] == before[:2]
    assert gc.get_threshold()[2] > 1_000_000
    PutOff.end()
    assert gc.get_threshold()[2] > 1_000_000
    PutOff.end()
    assert gc.get_threshold() == before
