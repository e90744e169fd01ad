"""Values taken apart and put together again."""

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

from snapshot.export.structure import Named, is_numbers, paths, put_together, take_apart

Pair = namedtuple("Pair", "first second")


def is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def there_and_back(value: Any) -> Any:
    arrays, structure = take_apart(value, is_array)
    return put_together(structure, arrays)


ONE, TWO = np.ones(1), np.ones(2)


@pytest.mark.parametrize(
    "value", [ONE, (ONE, TWO), [ONE, None, "text", 3], {"a": ONE, "b": (TWO, [ONE])}, {"none": None, "x": TWO}]
)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = there_and_back(value)
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_an_output_of_transformers_has_attributes_keys_and_places() -> None:
    back = there_and_back(OrderedDict(logits=ONE, hidden=None, last=TWO))
    assert isinstance(back, Named)
    assert back.logits is back["logits"] is back[0] is ONE
    assert back.hidden is None
    assert back.to_tuple() == (ONE, TWO)
    assert back[1] is TWO
    with pytest.raises(AttributeError, match="no 'logit'; it has: logits, hidden, last"):
        _ = back.logit


def test_a_named_tuple_keeps_its_names() -> None:
    assert there_and_back(Pair(ONE, TWO)).second is TWO


def test_what_cannot_be_kept_is_missed_by_name() -> None:
    back = there_and_back(OrderedDict(logits=ONE, cache=object()))
    assert list(back) == ["logits"]
    with pytest.raises(AttributeError, match=r"'cache' was left out.*: it was a object"):
        _ = back.cache


def test_paths_lead_to_every_part() -> None:
    _, structure = take_apart({"images": [ONE, TWO], "size": 3}, is_array)
    assert dict(paths(structure, "x")) == {
        "x.images.0": ("array", 0),
        "x.images.1": ("array", 1),
        "x.size": ("constant", 3),
    }


@pytest.mark.parametrize(
    ("value", "wanted"),
    [([1, 2], True), ([[1.0], [2, 3]], True), ([], False), ([[]], False), (["a"], False), ([ONE], False), (3, False)],
)
def test_lists_of_numbers(value: object, wanted: bool) -> None:
    assert is_numbers(value) is wanted
