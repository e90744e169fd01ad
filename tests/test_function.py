import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from faas import END, Batching, Calls, Context, Scaling, Sequences, endpoint, inference_function
from faas.errors import HandlerError, SettingError


@inference_function
def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@inference_function(name="Sum_Of", batching=Batching(max_batch_size=4))
class SumOf:
    unit = "metres"

    def setup(self) -> None:
        self.calls = 0

    def predict(self, rows: list[list[float]]) -> list[float | Exception]:
        self.calls += 1
        return [sum(row) if row else ValueError("empty row") for row in rows]


def test_a_bare_decorator_keeps_the_name_and_the_documentation():
    assert double.name == "double"
    assert double.__doc__ == "Twice x."
    assert double(4) == 8
    assert double.local(x=5) == 10


def test_names_become_labels():
    assert SumOf.name == "sum-of"


def test_a_class_is_called_with_one_item_and_set_up_once():
    assert SumOf([1.0, 2.0]) == 3.0
    assert SumOf.local([4.0]) == 4.0
    with pytest.raises(ValueError, match="empty row"):
        SumOf([])


def test_attributes_of_the_class_are_reached_through_the_function():
    assert SumOf.unit == "metres"
    with pytest.raises(AttributeError):
        _ = SumOf.nothing


def test_setup_runs_once_whatever_the_threads():
    count = []

    @inference_function
    class Slow:
        def setup(self) -> None:
            count.append(1)

        def predict(self, x: int) -> int:
            return x

    threads = [threading.Thread(target=Slow, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == [1]


def test_every_kind_of_handler_is_told_and_called():
    @inference_function
    async def later(x: int) -> int:
        return x + 1

    @inference_function
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @inference_function
    async def tick(n: int, context: Context) -> AsyncIterator[str]:
        for i in range(n):
            yield f"{context.request_id}{i}"

    @inference_function(batching=Batching())
    def letters(words: list[str]) -> Iterator[list[object]]:
        for i in range(max(map(len, words)) + 1):
            yield [word[i] if i < len(word) else END for word in words]

    assert asyncio.run(later(1)) == 2
    assert list(count(3)) == [0, 1, 2]
    assert list(letters("abc")) == ["a", "b", "c"]

    async def collect() -> list[str]:
        return [event async for event in tick(2)]

    assert asyncio.run(collect()) == ["local0", "local1"]
    kinds = [f.main.signature.kind for f in (later, count, tick, letters)]
    assert kinds == ["async", "generator", "async_generator", "generator"]


def test_a_batched_handler_that_answers_too_few_items_is_told_so():
    @inference_function(batching=Batching())
    def none(xs: list[int]) -> list[int]:
        return []

    with pytest.raises(HandlerError, match="gave 0 values for 1 item"):
        none(1)


def test_limits_follow_the_batching_and_the_kind():
    @inference_function
    async def later(x: int) -> int:
        return x

    @inference_function(batching=Batching(max_batch_size=8), scaling=Scaling(target_inputs=4), calls=Calls(max_queue=7))
    def set_by_hand(xs: list[int]) -> list[int]:
        return xs

    def three(f):
        return f.limits.target_inputs, f.limits.max_inputs, f.limits.max_queue

    assert three(double) == (1, 2, 20)
    assert three(later) == (70, 100, 1000)
    assert three(SumOf) == (4, 8, 80)
    assert three(set_by_hand) == (4, 16, 7)
    assert three(double.with_options(scaling=Scaling(max_inputs=1))) == (1, 1, 10)
    three_at_once = Batching(max_batch_size=8, instances=3)
    assert three(set_by_hand.with_options(batching=three_at_once)) == (4, 32, 7)
    assert three(set_by_hand.with_options(batching=three_at_once, scaling=Scaling())) == (24, 32, 7)


def test_options_make_another_function_and_leave_the_first():
    quick = double.with_options(calls=Calls(timeout_s=1))
    assert quick.spec.calls.timeout_s == 1
    assert double.spec.calls.timeout_s == 60
    assert quick(2) == 4
    with pytest.raises(SettingError, match="did you mean 'calls'"):
        double.with_options(call=Calls())


def test_endpoints_of_a_class():
    @inference_function
    class Two:
        @endpoint("/")
        def read(self, x: int) -> int:
            return x

        @endpoint("/count")
        def count(self, x: int) -> int:
            return x

    assert {e.path: e.method for e in Two.endpoints} == {"/": "read", "/count": "count"}
    assert Two.main.method == "read"


@pytest.mark.parametrize("path", ["count", "/metrics", "/v2/models", "/x/", ""])
def test_a_path_that_cannot_be_public_is_refused(path):
    with pytest.raises(SettingError):
        endpoint(path)


def test_a_class_without_anything_to_call_names_the_nearest():
    with pytest.raises(SettingError, match="name or mark the one that answers: predit"):

        @inference_function
        class Wrong:
            def predit(self, x: int) -> int:
                return x


def test_static_and_class_methods_answer_too():
    @inference_function
    class Static:
        @staticmethod
        def predict(n: int) -> int:
            return n + 1

        @endpoint("/name")
        @classmethod
        def name_of(cls, n: int) -> str:
            return cls.__name__ * n

    assert Static(1) == 2
    assert {e.path: e.signature.decode(b'{"n": 2}') for e in Static.endpoints} == {"/": {"n": 2}, "/name": {"n": 2}}


def test_a_class_whose_repr_needs_what_setup_makes_can_be_decorated():
    @inference_function
    class Shown:
        def setup(self) -> None:
            self.size = 3

        def __repr__(self) -> str:
            return f"Shown of {self.size}"

        def predict(self, x: int) -> str:
            return f"{self} {x}"

    assert Shown.local(1) == "Shown of 3 1"


def test_two_methods_on_one_path_are_refused():
    with pytest.raises(SettingError, match="both at /a"):

        @inference_function
        class Wrong:
            @endpoint("/a")
            def one(self, x: int) -> int:
                return x

            @endpoint("/a")
            def two(self, x: int) -> int:
                return x


def test_an_asynchronous_setup_is_refused():
    with pytest.raises(SettingError, match="plain method"):

        @inference_function
        class Wrong:
            async def setup(self) -> None: ...

            def predict(self, x: int) -> int:
                return x


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(SettingError, match="no setting 'batchin' \\(did you mean 'batching'"):
        inference_function(batchin=Batching())


@pytest.mark.parametrize("thing", [3, double, "f"])
def test_what_cannot_be_decorated_is_refused(thing):
    with pytest.raises(SettingError, match="decorates a function or a class"):
        inference_function(thing)


@pytest.mark.parametrize("name", ["日本", "x" * 64, "---"])
def test_a_name_without_a_label_is_refused(name):
    with pytest.raises(SettingError, match="no valid function name"):
        inference_function(name=name)(double.user)


@pytest.mark.parametrize(
    ("name", "label"),
    [("my_model", "my-model"), ("MyModel", "mymodel"), ("model.v2", "model-v2"), ("2fast", "f-2fast"), ("é", "e")],
)
def test_k8_05_python_names_become_labels(name, label):
    assert inference_function(name=name)(double.user).name == label


def test_arguments_in_python_are_checked():
    with pytest.raises(TypeError, match="has no parameter 'y'"):
        double(y=1)
    with pytest.raises(TypeError, match="needs 'x'"):
        double()
    with pytest.raises(TypeError, match="takes 1 arguments"):
        double(1, 2)
    with pytest.raises(TypeError, match="'x' twice"):
        double(1, x=1)


def test_a_local_call_of_a_function_with_sequences_is_a_sequence_of_one():
    @inference_function(
        batching=Batching(max_batch_size=4, sequences=Sequences()), scaling=Scaling(max_instances=1), name="turns"
    )
    def turns(x: list[int], context: list[Context]) -> list[tuple[bool, bool, int]]:
        return [(one.sequence.start, one.sequence.end, one.sequence.slot) for one in context]

    assert turns.local(1) == (True, True, 0)
