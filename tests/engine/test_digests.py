from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pydantic
import pytest
import torch

from faas.engine.digests import Digests

digests = Digests("function", "version", "/")


def of(value: Any) -> bytes:
    found = digests.of({"x": value})
    assert found is not None
    return found


@dataclass
class Parcel:
    weight: float
    country: str


class Row(msgspec.Struct):
    weight: float


class Model(pydantic.BaseModel):
    weight: float
    when: datetime.datetime


class Colour(enum.Enum):
    RED = "red"


FLOATS = np.array([1, 2], dtype="<f8")
DIFFERENT: list[Any] = [
    [1, 2],
    [1.0, 2.0],
    "1,2",
    b"1,2",
    "[1, 2]",
    [[1, 2]],
    [True, 2],
    None,
    "",
    [],
    {},
    {"x": [1, 2]},
    np.array([(1, 2)], dtype=[("a", "<i4"), ("b", "<i4")]),
    np.array([(1, 2)], dtype=[("b", "<i4"), ("a", "<i4")]),
    np.array([(1, 2)], dtype=[("a", "<u4"), ("b", "<i4")]),
    FLOATS,
    FLOATS.reshape(1, 2),
    FLOATS.astype("<f4"),
    FLOATS.astype("<i8"),
    FLOATS.astype(">f8"),
    FLOATS[0],
    np.float32(1.0),
    torch.tensor([1.0, 2.0], dtype=torch.float64),
    torch.tensor([[1.0, 2.0]], dtype=torch.float64),
    torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    torch.tensor(1.0),
    2**70 - 1.0,
]


def test_ca_01_element_types_and_shapes_are_part_of_the_key():
    assert len({of(value) for value in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("made", [np.zeros, torch.zeros, lambda shape: torch.from_numpy(np.zeros(shape))])
def test_ca_01_arrays_without_elements_have_digests_too(made: Any):
    assert len({of(made((0,))), of(made((0, 2))), of(made((2, 0))), of(made((1,)))}) == 4


def test_ca_01_the_order_of_keys_is_not():
    assert of({"a": 1, "b": {"c": 2, "d": 3}}) == of({"b": {"d": 3, "c": 2}, "a": 1})
    assert digests.of({"a": 1, "b": 2}) == digests.of({"b": 2, "a": 1})
    assert of({1, 2, 3}) == of({3, 2, 1})


def test_ca_01_nor_is_how_an_array_lies_in_memory():
    rows = np.arange(12.0).reshape(3, 4)
    assert of(rows.T) == of(np.ascontiguousarray(rows.T))
    assert of(rows[:, ::2]) == of(rows[:, ::2].copy())
    assert of(torch.from_numpy(rows).T) == of(torch.from_numpy(rows).T.contiguous())


def test_ca_01_function_version_and_endpoint_are():
    scopes = [("f", "1", "/"), ("f", "2", "/"), ("g", "1", "/"), ("f", "1", "/other"), ("f1", "", "/")]
    assert len({Digests(*scope).of({"x": 1}) for scope in scopes}) == len(scopes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Parcel(1.0, "PT"), Parcel(1.0, "ES")),
        (Row(1.0), Row(2.0)),
        (Model(weight=1, when="2026-01-01T00:00"), Model(weight=1, when="2026-01-01T00:01")),
        (decimal.Decimal("1.0"), decimal.Decimal("1.1")),
        (uuid.UUID(int=1), uuid.UUID(int=2)),
        (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
        (Colour.RED, "blue"),
        (0.0, -0.0),
        ("é", "e\u0301"),
    ],
)
def test_equal_objects_have_equal_digests_and_others_do_not(one: Any, other: Any):
    assert of(one) == of(one)
    assert of(one) != of(other)


class Discreet(pydantic.BaseModel, extra="allow"):
    tenant: str = pydantic.Field("a", exclude=True)
    weight: float = 0.0
    parts: list[Model] = []

    @pydantic.field_serializer("weight")
    def rounded(self, weight: float) -> int:
        return round(weight)


class Listed(pydantic.RootModel[list[int]]):
    def __iter__(self) -> Any:  # type: ignore[override]
        return iter(self.root)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tenant": "a"}, {"tenant": "b"}),
        ({"weight": 1.1}, {"weight": 1.2}),
        ({"more": 1}, {"more": 2}),
        ({"parts": []}, {"parts": [{"weight": 1, "when": "2026-01-01T00:00"}]}),
        ({}, {"tenant": "a"}),
    ],
)
def test_a_model_is_told_by_what_it_holds_and_not_by_what_it_would_write(one: Any, other: Any):
    assert of(Discreet(**one)) == of(Discreet(**one))
    assert of(Discreet(**one)) != of(Discreet(**other))
    assert of(Listed([1])) == of(Listed([1])) != of(Listed([2]))


@pytest.mark.parametrize("unknown", [object(), [object()], 2**70, np.array([object()])])
def test_of_what_it_does_not_know_there_is_none(unknown: Any):
    assert digests.of({"x": unknown}) is None


@pytest.mark.parametrize(
    "within",
    [lambda at: at, lambda at: [at], lambda at: Model(weight=1, when=at)],
    ids=["itself", "in a list", "in a model"],
)
def test_a_moment_of_another_offset_is_another_input(within: Any):
    here = datetime.timezone(datetime.timedelta(hours=1))
    noon = datetime.datetime(2020, 1, 2, 12, tzinfo=datetime.UTC)
    assert noon == noon.astimezone(here)
    assert noon.hour != noon.astimezone(here).hour
    assert of(within(noon)) != of(within(noon.astimezone(here)))
    assert of(within(noon)) == of(within(noon.replace()))
    for fraction in (0, 5):
        far = datetime.datetime(2600, 1, 2, 12, 0, 0, fraction, tzinfo=datetime.UTC)
        assert of(within(far)) != of(within(far.astimezone(here)))
        old = far.replace(year=1600)
        assert of(within(old)) != of(within(old.astimezone(here)))
