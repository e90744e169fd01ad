from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from faas import Array, codec
from faas.cli import example
from faas.schema import Signature


@dataclass
class Node:
    children: list[Node]
    name: str = "n"


def text(x: str) -> None: ...
def two(a: int, b: float, c: bool = False) -> None: ...
def chosen(x: Literal["p", "q"]) -> None: ...
def either(x: int | None) -> None: ...
def pair(x: tuple[int, str]) -> None: ...
def rows(x: list[list[float]]) -> None: ...
def quote(x: Literal["it's"]) -> None: ...
def array(x: Annotated[np.ndarray, Array("float64", (2,))]) -> None: ...
def bare_array(x: np.ndarray) -> None: ...
def anything(x: Any) -> None: ...


@pytest.mark.parametrize("fn", [text, two, chosen, either, pair, rows, array, bare_array, anything])
def test_an_example_is_what_the_signature_takes(fn: Any) -> None:
    signature = Signature.of(fn, batched=False)
    shown = example.of(signature)
    assert shown.startswith("--data '")
    assert signature.decode(shown.removeprefix("--data ").strip("'").encode())


def test_an_example_has_the_required_fields_alone() -> None:
    assert example.of(Signature.of(two, batched=False)) == """--data '{"a":1,"b":1.5}'"""


def test_an_example_can_be_pasted_into_a_shell() -> None:
    assert example.of(Signature.of(quote, batched=False)) == """--data '"it'\\''s"'"""


def test_a_type_that_holds_itself_ends() -> None:
    def tree(x: Node) -> None: ...

    shown = example.of(Signature.of(tree, batched=False, scope={"Node": Node}))
    assert codec.decode_value(shown.removeprefix("--data ").strip("'").encode())


def test_bytes_come_from_a_file() -> None:
    def raw(x: bytes) -> None: ...

    assert example.of(Signature.of(raw, batched=False)) == "--file PATH"
