"""What handlers return and callers send, as JSON: kinds of values that Python's own encoder takes, and a few more."""

from __future__ import annotations

import json
import types
from array import array
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from faas import codec
from faas.errors import HandlerError, MalformedBody, SchemaMismatch


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Whole(int): ...


class Real(float): ...


class Pair(NamedTuple):
    a: int
    b: float


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Moment(datetime): ...


class Day(date): ...


class Hour(time): ...


class Span(timedelta): ...


class Amount(Decimal): ...


class Column:
    """As columns of tables are, and arrays of other libraries."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def tolist(self) -> list[Any]:
        return self._values


class Tensor:
    def numpy(self) -> Any:
        return np.array([1.5, np.nan])


class Missing(datetime):
    """As the moment that pandas has for none."""

    def timetz(self) -> time:
        raise ValueError("it does not have one")


Missing.__name__, Missing.__module__ = "NaTType", "pandas.api.typing"


@dataclass
class Held:
    a: Any


class Kept(msgspec.Struct):
    a: Any


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2**70, 2**70),
        (-(2**63), -(2**63)),
        (Text("x"), "x"),
        (Whole(4), 4),
        (Real(1.5), 1.5),
        (Pair(1, 2.5), [1, 2.5]),
        ([Colour.RED, Level.LOW], ["red", 1]),
        (
            [defaultdict(int, a=1), OrderedDict(a=1), Counter("a"), UserDict(a=1), types.MappingProxyType({"a": 1})],
            None,
        ),
        ([deque([1, 2]), range(1, 3), {1: 0, 2: 0}.keys(), {"a": 1, "b": 2}.values()], [[1, 2]] * 4),
        (PurePosixPath("/a/b"), "/a/b"),
        (np.str_("x"), "x"),
        (np.longdouble(1.5), 1.5),
        (np.array([1.5, 2.5], dtype="longdouble"), [1.5, 2.5]),
        (np.float16(1.5), 1.5),
        (np.ma.masked_array([1, 2], mask=[0, 1]), [1, None]),
        (Moment(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2020-01-02T03:04:05.000006Z"),
        ({Moment(2020, 1, 2): Day(2020, 1, 2)}, {"2020-01-02T00:00:00": "2020-01-02"}),
        ([Hour(3, 4), Span(seconds=3), Amount("1.10")], ["03:04:00", "PT3S", "1.10"]),
        ([Column([Moment(2020, 1, 2), Missing(2020, 1, 2)]), Tensor()], [["2020-01-02T00:00:00", None], [1.5, None]]),
        (array("d", [1.5, 2.5]), [1.5, 2.5]),
    ],
)
def test_kinds_of_what_json_has_are_written_as_that(value, said):
    assert json.loads(codec.encode(value)) == ([{"a": 1}] * 5 if said is None else said)


def test_keys_are_written_as_pythons_own_encoder_does():
    value = {True: 0.9, False: 0.1, None: 1, 2: 1, 1.5: 1, Text("t"): 1}
    assert json.loads(codec.encode(value)) == json.loads(json.dumps(value))
    found = codec.encode(dict(zip(*np.unique([3, 3, 5], return_counts=True), strict=True)))
    assert json.loads(found) == {"3": 2, "5": 1}
    assert json.loads(codec.encode({np.bool_(True): 1, np.str_("a"): 2})) == {"true": 1, "a": 2}


def test_a_moment_is_a_moment_however_fine_its_unit():
    for unit in ("s", "us", "ns"):
        assert json.loads(codec.encode(np.datetime64("2020-01-02T03:04:05", unit))) == "2020-01-02T03:04:05"
    assert json.loads(codec.encode(np.array(["2020-01-02", "NaT"], dtype="M8[ns]"))) == ["2020-01-02T00:00:00", None]
    assert json.loads(codec.encode(np.timedelta64(3_000_000_000, "ns"))) == "PT3S"


@pytest.mark.parametrize(
    "value",
    [
        {"text": "\ud800", True: 1, None: 2, np.int64(3): 3},
        [Held({np.int64(1): Text("\ud800")}), Kept(["\ud800"]), deque(["\ud800"])],
        {"\ud800": np.array([1.5]), "b": b"x"},
    ],
)
def test_ht_02_a_lone_surrogate_is_replaced_whatever_stands_beside_it(value):
    assert "\ufffd" in codec.encode(value).decode()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((one for one in "ab"), "Iterator"),
        (1 + 2j, "complex"),
        ({(1, 2): 3}, "tuple"),
        (["\ud800", object()], "object"),
        (["\ud800", {(1, 2): 3}], "cannot be written"),
        (types.SimpleNamespace(columns=["a"]), r"to_dict\('records'\)"),
        (types.SimpleNamespace(getbands=len), "BytesIO"),
        (types.SimpleNamespace(toarray=len), "toarray"),
        (Column, "type"),
    ],
)
def test_what_has_no_json_form_says_so(value, words):
    with pytest.raises(HandlerError, match=words):
        codec.encode(value)


def test_a_byte_order_mark_before_a_body_is_no_part_of_it():
    whole = codec.decoder(int)
    assert codec.decode(b"\xef\xbb\xbf 5", whole) == 5
    with pytest.raises(SchemaMismatch):
        codec.decode(b'\xef\xbb\xbf"5"', whole)
    for body in (b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2 + b"5", b"\xef\xbb\xbf" * 100_000, b"\xfe\xff5"):
        with pytest.raises(MalformedBody):
            codec.decode(body, whole)


def test_a_key_that_does_not_fit_is_told_with_the_path_of_its_object():
    for kind, body, path in (
        (dict[int, float], b'{"a":1}', "$"),
        (list[dict[int, float]], b'[{"1":1},{"a":1}]', "$[1]"),
        (dict[str, dict[int, str]], b'{"x":{"1":2}}', "$[][]"),
    ):
        with pytest.raises(SchemaMismatch) as raised:
            codec.decode(body, codec.decoder(kind))
        assert raised.value.field == path
