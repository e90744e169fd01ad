"""What callers give, made into what a model takes."""

import numpy as np
import pytest

from snapshot.errors import InputMismatch
from snapshot.export.inputs import Input, fit

IDS = Input("ids", "int64", (None, None))


@pytest.mark.parametrize(
    ("dtype", "given", "wanted"),
    [
        ("int64", np.array([1, 2], "i4"), [1, 2]),
        ("int64", [1, 2], [1, 2]),
        ("int64", [1.0, 2.0], [1, 2]),
        ("int64", [True, False], [1, 0]),
        ("int32", [2**31 - 1, -(2**31)], [2**31 - 1, -(2**31)]),
        ("uint8", [255.0], [255]),
        ("int64", [2**53 + 1, 1.0], [2**53 + 1, 1]),
        ("uint64", [2**63 + 1, 1], [2**63 + 1, 1]),
        ("uint64", [2**64 - 1, 1.0], [2**64 - 1, 1]),
        ("int64", [1e18, 1], [10**18, 1]),
        ("float32", [1, 2], [1.0, 2.0]),
        ("float32", np.array([1.5, 2.5], "f8"), [1.5, 2.5]),
        ("float64", np.array([1.5], "f2"), [1.5]),
        ("float32", [float("inf"), -0.5], [float("inf"), -0.5]),
        ("bool", [True, False], [True, False]),
        ("object", ["a", "b"], ["a", "b"]),
        ("int64", [], []),
        ("float32", np.zeros((0,), "i8"), []),
    ],
)
def test_or_02_what_loses_nothing_is_cast(dtype: str, given: object, wanted: list[object]) -> None:
    array = fit(Input("x", dtype, (None,)), given)
    assert (array.dtype, array.tolist()) == (np.dtype(dtype), wanted)


@pytest.mark.parametrize(
    ("dtype", "given", "got"),
    [
        ("int64", [1.5, 2.0], "1.5"),
        ("int32", [2**40], "1099511627776"),
        ("uint8", [-1], "-1"),
        ("int64", [float("nan")], "nan"),
        ("int64", [2.0**63], "9.22"),
        ("uint64", [-1, 2**63], "-1"),
        ("int64", [2**53 + 1, 0.5], "0.5"),
        ("int64", [float("inf"), 1], "inf"),
        ("int64", [1e300], "1e\\+300"),
        ("float32", [1e300], "1e\\+300"),
        ("int64", ["1"], "text"),
        ("int64", [1, None], "objects"),
        ("object", [b"1"], "bytes"),
        ("bool", [1], "int64"),
        ("object", [1], "int64"),
        ("object", ["a", None], "objects"),
        ("object", np.array(["a", 1], object), "objects"),
        ("object", np.array([b"1"], object), "objects"),
        ("float32", [1 + 2j], "complex128"),
    ],
)
def test_or_02_what_would_lose_is_refused_by_the_inputs_name(dtype: str, given: object, got: str) -> None:
    wanted = "text" if dtype == "object" else dtype
    with pytest.raises(InputMismatch, match=f"input 'x': got .*{got}.*wanted {wanted}") as caught:
        fit(Input("x", dtype, (None,)), given)
    assert caught.value.name == "x"


@pytest.mark.parametrize("given", [[1, 2], [[[1]]], 3, [[1], [2, 3]]])
def test_or_02_another_rank_is_refused(given: object) -> None:
    with pytest.raises(InputMismatch, match=r"wanted int64\[any, any\]"):
        fit(IDS, given)


def test_a_fixed_axis_is_of_its_length_and_the_batch_of_any_where_allowed() -> None:
    fixed = Input("x", "float32", (4, 2))
    assert fit(fixed, np.zeros((3, 2), "f4"), any_batch=True).shape == (3, 2)
    with pytest.raises(InputMismatch, match=r"float32\[3, 2\], wanted float32\[4, 2\]"):
        fit(fixed, np.zeros((3, 2), "f4"))
    with pytest.raises(InputMismatch):
        fit(fixed, np.zeros((4, 3), "f4"), any_batch=True)


def test_an_array_that_fits_is_taken_as_it_is() -> None:
    array = np.ones((1, 2), "i8")
    assert fit(IDS, array) is array
    assert fit(Input("x", "int64", None), array) is array


def test_texts_take_no_more_memory_than_they_have() -> None:
    texts = ["x" * 1_000_000, *("y" * 3 for _ in range(10_000))]  # 40 GB in an array of numpy's own
    array = fit(Input("x", "object", (None,)), texts)
    assert (array.dtype, array[0] is texts[0]) == (np.dtype(object), True)
    with pytest.raises(InputMismatch, match="lists of different lengths"):
        fit(Input("x", "object", (None, None)), [["a"], ["b", "c"]])
