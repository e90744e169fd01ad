"""The element types of arrays on a signature: what a body becomes, and which there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest
import torch

from faas import Array, codec
from faas.errors import SchemaMismatch, SettingError
from faas.schema import Signature


def made(hint: Any, *, example: Any = None, batched: bool = False) -> Signature:
    def f(x: Any) -> Any: ...

    f.__annotations__["x"] = hint
    return Signature.of(f, batched=batched, example=example)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("body", "example"), [(b"[0.1, 2]", None), (b"[0.1, 2]", [1.0, 2.0])])
def test_a_bare_tensor_is_of_torchs_own_default_type(body, example, batched):
    x = made(torch.Tensor, example=example, batched=batched).decode(body)["x"]
    assert torch.equal(x, torch.tensor([0.1, 2]))
    assert torch.nn.Linear(2, 1)(x).shape == (1,)


@pytest.mark.usefixtures("double")
def test_the_default_may_be_another():
    assert made(torch.Tensor).decode(b"[0.1]")["x"].dtype is torch.float64


def test_whole_numbers_and_booleans_are_what_torch_makes_of_them():
    for value in ([1, 2], [True], [[1], [2]]):
        x = made(torch.Tensor).decode(json.dumps(value).encode())["x"]
        assert torch.equal(x, torch.tensor(value))
    assert made(torch.Tensor, example=[1, 2]).decode(b"[3, 4]")["x"].dtype is torch.int64


def test_an_example_that_is_an_array_has_a_type_of_its_own():
    assert made(torch.Tensor, example=np.zeros(2)).decode(b"[1, 2]")["x"].dtype is torch.float64
    assert made(np.ndarray, example=[1.0, 2.0]).decode(b"[1, 2]")["x"].dtype == np.float64


def test_or_02_a_number_beyond_the_default_type_is_no_infinity():
    for example in (None, [1.0]):
        with pytest.raises(SchemaMismatch, match="within float32"):
            made(torch.Tensor, example=example).decode(b"[1e300]")


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("int64", "9223372036854775808.0"), ("int32", "-2147483649.0"), ("uint8", "-1.0"), ("uint64", "1.9e19")],
)
def test_or_02_a_float_beyond_an_integer_type_is_refused_as_one(dtype: str, number: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"within {dtype}"):
        made(Annotated[np.ndarray, Array(dtype)]).decode(f"[{number}]".encode())


def test_or_02_the_last_floats_within_an_integer_type_are_taken() -> None:
    x = made(Annotated[np.ndarray, Array("int64")]).decode(b"[-9223372036854775808.0, 9223372036854774784.0]")["x"]
    assert x.tolist() == [-(2**63), 2**63 - 1024]


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("bfloat16", torch.bfloat16),
        ("torch.bfloat16", torch.bfloat16),
        (torch.float16, torch.float16),
        (np.float32, torch.float32),
        ("float", torch.float32),
        ("int", torch.int32),
        ("long", torch.int64),
        ("f8", torch.float64),
        ("bool", torch.bool),
    ],
)
def test_types_have_the_names_that_torch_gives_them(dtype, wanted):
    signature = made(Annotated[torch.Tensor, Array(dtype, (None,))])
    assert signature.decode(b"[1, 0]")["x"].dtype is wanted
    assert signature.schemas()[0]


@pytest.mark.parametrize(
    ("dtype", "wanted"), [("float", "float64"), (np.dtype("int32"), "int32"), (float, "float64"), ("bool", "bool")]
)
def test_types_have_the_names_that_numpy_gives_them(dtype, wanted):
    assert made(Annotated[np.ndarray, Array(dtype, (None,))]).decode(b"[1, 0]")["x"].dtype == wanted


def test_a_type_that_a_library_teaches_numpy_as_raw_bytes_is_still_torchs():
    pytest.importorskip("ml_dtypes")
    assert np.dtype("bfloat16").kind == "V"
    signature = made(Annotated[torch.Tensor, Array("bfloat16", (None,))])
    assert signature.decode(b"[0.1, 1]")["x"].tolist() == torch.tensor([0.1, 1.0], dtype=torch.bfloat16).tolist()


def test_or_02_what_only_torch_has_is_checked_as_well():
    signature = made(Annotated[torch.Tensor, Array("bfloat16")])
    assert signature.decode(b"[0.1]")["x"].tolist() == torch.tensor([0.1], dtype=torch.bfloat16).tolist()
    for body in (b"[1e300]", b"[3.4e38]"):
        with pytest.raises(SchemaMismatch, match="within"):
            signature.decode(body)


@pytest.mark.parametrize("made_of", [torch.Tensor.to_sparse, torch.nn.Parameter])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_tensor_is_written_as_its_numbers(made_of, dtype):
    assert codec.encode(made_of(torch.eye(2, dtype=dtype))) == b"[[1.0,0.0],[0.0,1.0]]"


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[np.ndarray, Array("flaot32")],
        Annotated[np.ndarray, Array("bfloat16")],
        Annotated[np.ndarray, Array("str")],
        Annotated[torch.Tensor, Array("object")],
        Annotated[torch.Tensor, Array("longdouble")],
        list[Annotated[torch.Tensor, Array("")]],
    ],
)
def test_a_type_that_there_is_not_is_refused_at_import(hint):
    with pytest.raises(SettingError, match="has no numbers of that type"):
        made(hint)
