"""What people write who know other products is refused when it is imported, with what to write here."""

from pathlib import Path

import pytest

from faas import Batching, Resources, endpoint, inference_function
from faas.errors import SettingError


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"gpu": "L4"}, r"no setting 'gpu' of its own; write resources=Resources\(gpu=\.\.\.\)"),
        ({"max_batch_size": 8}, r"write batching=Batching\(max_batch_size=\.\.\.\)"),
        ({"timeout_s": 8}, r"write calls=Calls\(timeout_s=\.\.\.\)"),
        ({"gpus": 1}, "no setting 'gpus'; it has: name"),
    ],
)
def test_a_setting_of_a_policy_is_told_its_place(setting, told):
    with pytest.raises(SettingError, match=told):
        inference_function(**setting)


def test_a_class_that_answers_by_another_name_is_told_which_methods_it_has():
    with pytest.raises(SettingError, match=r"no method predict .*; name or mark the one that answers: infer, __call__"):

        @inference_function
        class Model:
            def infer(self, x: int) -> int: ...

            def __call__(self, x: int) -> int: ...


def test_an_init_with_arguments_is_refused_and_one_with_defaults_is_not():
    with pytest.raises(SettingError, match=r"class Model: __init__\(\) needs 'path', and is called without arguments"):

        @inference_function
        class Model:
            def __init__(self, path: str) -> None: ...

            def predict(self, x: int) -> int: ...

    @inference_function
    class Other:
        def __init__(self, factor: int = 3, *args: int, **more: int) -> None:
            self.factor = factor

        def predict(self, x: int) -> int:
            return x * self.factor

    assert Other(2) == 6


def test_a_method_without_self_is_refused():
    with pytest.raises(SettingError, match=r"Model.predict: the first parameter of a method is the object"):

        @inference_function
        class Model:
            def predict(x: int) -> int: ...

    with pytest.raises(SettingError, match=r"None_.run: the first parameter of a method is the object"):

        @inference_function
        class None_:
            @endpoint("/run")
            def run() -> int: ...


def test_static_and_class_methods_answer_as_they_are():
    @inference_function
    class Model:
        @staticmethod
        def predict(x: int) -> int:
            return x

        @endpoint("/other")
        @classmethod
        def other(cls, x: int) -> int:
            return x + 1

    assert (Model(1), Model.other(1)) == (1, 2)


class Picture:
    pass


@pytest.mark.parametrize("kind", [Picture, Path, list[Picture], Path | None, complex])
def test_a_type_that_no_json_can_be_read_as_is_refused(kind):
    def of(image):
        return image

    of.__annotations__["image"] = kind
    with pytest.raises(SettingError, match=r"of: image is annotated (Picture|Path|complex), which no JSON can be read"):
        inference_function(of)
    of.__annotations__["image"] = list[kind]
    with pytest.raises(SettingError, match="which no JSON can be read as"):
        inference_function(batching=Batching())(of)


def test_what_has_a_default_may_be_of_any_type():
    @inference_function
    def of(x: int, held: Picture | None = None) -> int:
        return x

    assert of(3) == 3


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("4096", r"memory='4096'\) is less than any process holds \(a number alone is of bytes\)"),
        ("1Ki", "less than any process holds"),
        ("4GB", "no size: .*; 4Gi may be meant"),
        ("512mb", "512Mi may be meant"),
    ],
)
def test_a_size_in_a_unit_that_is_not_meant_is_refused(memory, told):
    with pytest.raises(SettingError, match=told):
        Resources(memory=memory)
