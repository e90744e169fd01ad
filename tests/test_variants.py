"""Variants, selections and caches as users write them, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest

from faas import (
    Array,
    Batching,
    Cache,
    Context,
    Function,
    Scaling,
    Selection,
    Sequences,
    endpoint,
    inference_function,
    variant,
)
from faas.errors import SettingError

PROMISED = Batching(slo_ms=100)
SLACK = Selection(policy="slack")
EXP3 = Selection(policy="exp3")
SEQUENCES: dict[str, Any] = {"batching": Batching(sequences=Sequences()), "scaling": Scaling(max_instances=1)}


class Sizes:
    def setup(self) -> None:
        self.unit = "m"

    @variant(accuracy=0.9)
    def small(self, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    @variant(accuracy=0.95)
    def large(self, texts: list[str]) -> list[int]:
        return [len(text) + 1 for text in texts]


def made(user: Any = Sizes, **settings: Any) -> Function:
    found: Function = inference_function(**settings)(user)
    return found


def refused(said: str, user: Any = Sizes, **settings: Any) -> None:
    with pytest.raises(SettingError, match=said):
        made(user, **settings)


def test_variants_take_the_place_of_predict():
    function = made(batching=PROMISED, selection=SLACK)
    assert [(e.path, e.method) for e in function.endpoints] == [("/", "large")]
    assert [(held.name, held.accuracy) for held in function.main.variants] == [("large", 0.95), ("small", 0.9)]
    assert [(e.path, e.method, e.variants) for e in function.main.each] == [("/", "large", ()), ("/", "small", ())]
    assert function.local("abc") == 4  # the best one


def test_a_variant_may_wait_on_the_loop_where_another_computes():
    class Mixed:
        @variant(accuracy=0.9)
        async def elsewhere(self, x: int) -> int:
            return x

        @variant
        def here(self, x: int) -> int:
            return x

    function = made(Mixed, selection=EXP3)
    assert [(e.method, e.signature.kind) for e in function.main.each] == [("elsewhere", "async"), ("here", "plain")]
    assert function.limits.max_inputs == 2


def test_variants_stand_in_the_order_of_their_accuracy_and_then_as_they_are_written():
    class Plain:
        @variant()
        def zebra(self, x: int) -> int:
            return x

        @variant()
        def ant(self, x: int) -> int:
            return x

        @variant(accuracy=0.5)
        def known(self, x: int) -> int:
            return x

    function = made(Plain, selection=EXP3)
    assert [held.name for held in function.main.variants] == ["known", "zebra", "ant"]


def test_an_endpoint_at_the_root_leaves_predict_to_the_variants():
    class Both(Sizes):
        @endpoint("/")
        def other(self, texts: list[str]) -> list[int]:
            return [0 for _ in texts]

    function = made(Both, batching=PROMISED, selection=SLACK)
    assert {e.path: e.method for e in function.endpoints} == {"/predict": "large", "/": "other"}


def test_settings_and_variants_go_together():
    refused("has variants .large, small.: say which one answers", batching=PROMISED)
    refused("there is none; mark methods with @variant", plain, selection=EXP3)
    refused("must be a Selection", selection="slack")
    refused("must be a Cache", selection=EXP3, cache="32Mi")

    class One:
        @variant()
        def only(self, x: int) -> int:
            return x

    refused("there is only only", One, selection=EXP3)


def plain(x: int) -> int:
    return x


def test_what_else_would_answer_is_refused():
    class WithPredict(Sizes):
        def predict(self, texts: list[str]) -> list[int]:
            return []

    class WithPath(Sizes):
        @endpoint("/large")
        @variant(accuracy=0.99)
        def huge(self, texts: list[str]) -> list[int]:
            return []

    refused("take the place of predict; drop it", WithPredict, batching=PROMISED, selection=SLACK)
    refused("huge is a variant and has a path", WithPath, batching=PROMISED, selection=SLACK)


def another(**changes: Any) -> type:
    def large(self: Any, texts: list[str]) -> list[int]:
        return []

    for name, value in changes.items():
        setattr(large, name, value)
    return type("Another", (Sizes,), {"large": variant(accuracy=0.95)(large)})


@pytest.mark.parametrize(
    "annotations",
    [{"texts": list[int], "return": list[int]}, {"texts": list[str], "return": list[str]}],
)
def test_variants_have_one_signature(annotations: Any):
    refused("large and small answer one call", another(__annotations__=annotations), batching=PROMISED, selection=SLACK)


def test_a_default_of_a_parameter_is_part_of_the_signature():
    refused("large and small answer one call", another(__defaults__=("a",)), batching=PROMISED, selection=SLACK)


def test_arrays_of_one_form_are_one_signature():
    class Arrays:
        @variant(accuracy=0.9)
        def one(self, x: Annotated[np.ndarray, Array("float32", (None, 2))]) -> np.ndarray:
            return x

        @variant(accuracy=0.8)
        def two(self, x: Annotated[np.ndarray, Array("float32", (None, 2))]) -> np.ndarray:
            return x

    class Unlike(Arrays):
        @variant(accuracy=0.7)
        def three(self, x: Annotated[np.ndarray, Array("float32", (None, 3))]) -> np.ndarray:
            return x

    made(Arrays, batching=PROMISED, selection=SLACK)
    refused("one and three", Unlike, batching=PROMISED, selection=SLACK)


def test_slack_needs_to_know_accuracies_and_a_promise():
    class Unknown(Sizes):
        @variant()
        def other(self, texts: list[str]) -> list[int]:
            return []

    refused("write @variant.accuracy=.... at other", Unknown, batching=PROMISED, selection=SLACK)
    refused("there is no promise", batching=Batching(), selection=SLACK)
    refused("there is no promise", Unbatched, selection=SLACK)
    refused(
        "no variant reaches accuracy_floor=0.99; the best has accuracy=0.95",
        batching=PROMISED,
        selection=Selection(policy="slack", accuracy_floor=0.99),
    )


def test_slack_looks_at_one_queue():
    batching = Batching(slo_ms=100, pad=0, buckets=(8, 16))
    with pytest.raises(SettingError, match="each bucket has its own"):
        made(Padded, batching=batching, selection=SLACK)


class Padded:
    @variant(accuracy=0.9)
    def a(self, x: np.ndarray) -> list[int]:
        return [0 for _ in x]

    @variant(accuracy=0.8)
    def b(self, x: np.ndarray) -> list[int]:
        return [0 for _ in x]


class Unbatched:
    @variant(accuracy=0.9)
    def a(self, x: int) -> int:
        return x

    @variant(accuracy=0.8)
    def b(self, x: int) -> int:
        return x


class Streaming:
    @variant()
    def a(self, x: int) -> Iterator[int]:
        yield x

    @variant()
    def b(self, x: int) -> Iterator[int]:
        yield x


def test_streams_are_in_more_than_one_piece():
    made(Streaming, selection=EXP3)
    refused("return them whole", Streaming, selection=Selection(policy="exp4"))
    refused("return them whole", Streaming, selection=Selection(policy="exp3", default=1))


def test_a_default_is_an_answer():
    made(Unbatched, selection=Selection(policy="exp3", default=0))
    refused(
        "default='none' is no answer of its variants", Unbatched, selection=Selection(policy="exp3", default="none")
    )


def test_answers_in_order_cannot_overtake():
    in_order = Batching(preserve_order=True)
    refused("drop selection or preserve_order", batching=in_order, selection=EXP3)
    refused("drop cache or preserve_order", batched, batching=in_order, cache=Cache())


def test_a_sequence_belongs_to_one_variant():
    refused("drop selection or sequences", **SEQUENCES, selection=EXP3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"policy": "exp5"}, "must be one of slack, exp3, exp4"),
        ({"policy": "slack", "default": 1}, "drop default"),
        ({"policy": "slack", "eta": 0.1}, "it learns nothing"),
        ({"policy": "slack", "gamma": 0.1}, "it learns nothing"),
        ({"policy": "slack", "context": "X-User"}, "it learns nothing"),
        ({"policy": "exp3", "accuracy_floor": 0.5}, 'a floor is for policy="slack"'),
        ({"policy": "exp3", "min_confidence": 0.5, "default": 1}, 'take policy="exp4"'),
        ({"policy": "exp4", "min_confidence": 0.5}, "say with default="),
        ({"policy": "exp4", "min_confidence": 1.5, "default": 1}, "from 0 to 1"),
        ({"policy": "exp3", "eta": 0}, "above 0"),
        ({"policy": "exp3", "context": " "}, "write a header's name"),
        ({"policy": "exp3", "confidence": 1}, "did you mean 'min_confidence'"),
    ],
)
def test_what_contradicts_itself_is_refused(settings: dict[str, Any], said: str):
    with pytest.raises(SettingError, match=said):
        Selection(**settings)


@pytest.mark.parametrize("accuracy", [1.5, -0.1, "high", True])
def test_an_accuracy_is_a_share(accuracy: Any):
    with pytest.raises(SettingError, match="from 0 to 1"):
        variant(accuracy=accuracy)


def test_a_null_can_be_a_default():
    assert Selection(policy="exp3", default=None).has_default
    assert not EXP3.has_default


def test_a_cache_has_a_size():
    assert Cache().num_bytes == 32 * 2**20
    assert Cache(max_bytes="1Ki").num_bytes == 1024
    with pytest.raises(SettingError, match=r"Cache\.max_bytes"):
        Cache(max_bytes="much")


def test_a_cache_that_could_keep_nothing_is_refused():
    @inference_function
    def streaming(x: int) -> Iterator[int]:
        yield x

    @inference_function
    def knowing(x: int, context: Context) -> int:
        return x

    for function, said in ((streaming, "its answers are streams"), (knowing, "it takes a Context")):
        with pytest.raises(SettingError, match=said):
            function.with_options(cache=Cache())
    refused("drop cache or sequences", batched, **SEQUENCES, cache=Cache())


def batched(x: list[int]) -> list[int]:
    return x


def test_one_endpoint_with_answers_to_keep_is_enough():
    class Mixed:
        def predict(self, x: int) -> int:
            return x

        @endpoint("/stream")
        def stream(self, x: int) -> Iterator[int]:
            yield x

    assert [each.path for each in made(Mixed, cache=Cache()).endpoints] == ["/", "/stream"]
