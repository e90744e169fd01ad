"""A large body is held to the signature as any is: the same arguments, the same errors."""

import dataclasses
import json
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faas import large_body, large_json, large_memory, long_strings
from faas.arrays import Array
from faas.errors import FaasError
from faas.schema import Signature


@dataclasses.dataclass
class Point:
    x: float
    name: str = "p"


class Row(TypedDict):
    values: list[float]


class Item(msgspec.Struct):
    tags: list[str]


def numbers(xs: list[float]) -> None: ...
def rows(xs: list[list[int]], scale: float = 1.0) -> None: ...
def points(points: list[Point]) -> None: ...
def row(row: Row) -> None: ...
def items(by_name: dict[str, list[Item]]) -> None: ...
def anything(x: Any) -> None: ...
def array(x: np.ndarray) -> None: ...
def matrix(x: Annotated[np.ndarray, Array("float32", (None, 3))], name: str) -> None: ...
def whole(x: Annotated[np.ndarray, Array("int64", (None,))]) -> None: ...
def text(name: str, data: str) -> None: ...


HANDLERS = [numbers, rows, points, row, items, anything, array, matrix, whole, text]


@pytest.fixture(autouse=True, scope="module")
def _short() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "SLICE_BYTES", 48)
        patch.setattr(long_strings, "PIECE_BYTES", 17)
        patch.setattr(large_memory, "NUM_TOGETHER", 7)
        patch.setattr(large_memory, "PAUSE_S", 0.0)
        yield


def outcome(decode: Any, *args: Any) -> Any:
    """The arguments, as what can be compared, or the error."""
    try:
        return [(name, _plain(value)) for name, value in decode(*args).items()]
    except FaasError as error:
        return type(error), error.args, getattr(error, "field", None)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tolist()
    return type(value), repr(value)


def assert_alike(handler: Any, body: bytes) -> Any:
    signature = Signature.of(handler, batched=False)
    expected = outcome(signature.decode, body)
    assert outcome(large_body.decode, signature, [body]) == expected
    return expected


numeric = st.integers(-(2**65), 2**65) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
leaves = numeric | st.none() | st.text(max_size=5)
lists = st.lists(numeric, max_size=40) | st.lists(st.lists(numeric, min_size=3, max_size=3), max_size=20)
shaped = st.fixed_dictionaries(
    {},
    optional={
        "xs": lists,
        "x": lists,
        "scale": leaves,
        "name": leaves,
        "data": st.text(max_size=90),
        "points": st.lists(st.fixed_dictionaries({"x": numeric}, optional={"name": leaves, "y": leaves}), max_size=20),
        "values": lists,
        "by_name": st.dictionaries(
            st.text(max_size=3), st.lists(st.just({"tags": ["a", "b"]}), max_size=9), max_size=3
        ),
    },
)
bodies = lists | shaped | st.recursive(leaves, lambda x: st.lists(x) | st.dictionaries(st.text(max_size=4), x))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(HANDLERS), bodies)
def test_it_gives_what_the_signature_gives(handler: Any, value: Any) -> None:
    assert_alike(handler, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("handler", "value"),
    [
        (numbers, [x / 3 for x in range(100)]),
        (numbers, {"xs": list(range(100))}),
        (rows, {"xs": [[1, 2, 3]] * 50 + [list(range(90))] * 3, "scale": 2}),
        (points, [{"x": 1}, {"x": 2.5, "name": "q"}] * 20),
        (row, {"values": [1, 2.5] * 50}),
        (items, {"a": [{"tags": ["x"]}] * 20, "b": []}),
        (anything, {"deep": [[{"a": [1, None, True]}]] * 20}),
        (array, {"x": [[1.5, 2, 3]] * 40}),
        (array, [1, 2, 3] * 40),
        (array, [True, 2] * 40),
        (array, [2**63, 1] * 40),
        (matrix, {"x": [[1, 2, 3]] * 40, "name": "m"}),
        (whole, list(range(100))),
        (text, {"name": "a", "data": "x" * 200}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_kind_of_parameter_is_filled(handler: Any, value: Any) -> None:
    assert isinstance(assert_alike(handler, json.dumps(value).encode()), list)


@pytest.mark.parametrize(
    ("handler", "value", "said"),
    [
        (numbers, [1.5] * 60 + ["a"] + [2.5] * 60, "$[60]"),
        (rows, {"xs": [[1, 2]] * 30 + [[1, "b"]], "scale": 1}, "$.xs[30][1]"),
        (rows, {"xs": [[1, 2]] * 30, "scales": 1}, "$.scales"),
        (rows, {"scale": 1, "x": [1] * 100}, "$.x"),
        (points, [{"x": 1}] * 30 + [{"x": 1, "z": 2}], "$[30].z"),
        (row, {"values": [1.0] * 60 + [None]}, "$.values[60]"),
        (items, {"a": [{"tags": ["x"]}] * 20 + [{"tags": [1]}]}, "$[][20].tags[0]"),
        (matrix, {"x": [[1, 2, 3]] * 40 + [[1, 2]], "name": "m"}, "$.x"),
        (matrix, {"x": [[1, 2, 3e39]] * 40, "name": "m"}, "$.x"),
        (whole, [1, 2.5] * 40, "$"),
        (text, {"name": 1, "data": "x" * 200}, "$.name"),
        (text, {"name": "a", "data": ["x" * 200]}, "$.data"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_does_not_fit_is_named_as_ever(handler: Any, value: Any, said: str) -> None:
    assert assert_alike(handler, json.dumps(value).encode())[2] == said


def test_what_is_no_json_is_said_as_ever() -> None:
    assert "malformed" in str(assert_alike(numbers, b"[" + b"1," * 100 + b"]"))
