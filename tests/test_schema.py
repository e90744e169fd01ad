import codecs
import functools
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import attrs
import msgspec
import numpy as np
import pydantic
import pytest
import torch

from faas import Array, Batching, Context, codec, inference_function
from faas.errors import HandlerError, MalformedBody, SchemaMismatch, SettingError
from faas.schema import Signature


@dataclass
class Point:
    x: float
    y: float = 0.0


@dataclass
class Path:
    points: list[Point]
    tags: dict[str, Point] = field(default_factory=dict)


class Query(TypedDict):
    text: str
    points: list[Point]


class Model(pydantic.BaseModel):
    size: int


class Tagged(msgspec.Struct, tag=True):
    x: int


class Color(Enum):
    RED = "red"


LOCK = threading.Lock()


def signature(fn, batched=False, example=None):
    return Signature.of(fn, batched=batched, example=example)


def one(greeting: Point) -> str: ...
def text(words: str) -> str: ...
def two(a: int, b: str = "x") -> str: ...
def anything(x: Any) -> Any: ...
def objects(x: list[object]) -> object: ...
def mapping(x: dict[str, int]) -> Any: ...
def nothing() -> int: ...
def easy(n: int = 3, tags: list[str] = []) -> Any: ...  # noqa: B006
def easier(point: Point | None = None) -> Any: ...
def deep(path: Path, n: int = 1) -> Any: ...
def typed(q: Query) -> Any: ...
def tagged(p: Tagged) -> Any: ...
def color(c: Color, how: Literal["a", "b"] = "a") -> Any: ...
def listed(points: list[Point]) -> Any: ...
def model(m: Model) -> Model: ...
def maybe(p: Point | None) -> Any: ...


@pytest.mark.parametrize(
    ("fn", "body", "kwargs"),
    [
        (one, b'{"x": 1}', {"greeting": Point(1.0)}),
        (text, b'"hi"', {"words": "hi"}),
        (text, b' {"words": "hi"}', {"words": "hi"}),
        (two, b'{"a": 1}', {"a": 1, "b": "x"}),
        (two, b'{"b": "y", "a": 2}', {"a": 2, "b": "y"}),
        (anything, b'{"x": 1}', {"x": {"x": 1}}),
        (anything, b"[1]", {"x": [1]}),
        (objects, b'[1, "a", null, {"b": 2}]', {"x": [1, "a", None, {"b": 2}]}),
        (mapping, b'{"k": 3}', {"x": {"k": 3}}),
        (nothing, b"", {}),
        (nothing, b"{}", {}),
        (easy, b"", {"n": 3, "tags": []}),
        (easy, b'{"tags": ["a"]}', {"n": 3, "tags": ["a"]}),
        (easier, b"", {"point": None}),
        (text, b'\xef\xbb\xbf {"words": "hi"}', {"words": "hi"}),
        (text, b'\xef\xbb\xbf"hi"', {"words": "hi"}),
        (listed, b'\xef\xbb\xbf[{"x": 1}]', {"points": [Point(1.0)]}),
        (deep, b'{"path": {"points": [{"x": 1}]}}', {"path": Path([Point(1.0)]), "n": 1}),
        (typed, b'{"text": "a", "points": []}', {"q": {"text": "a", "points": []}}),
        (color, b'{"c": "red"}', {"c": Color.RED, "how": "a"}),
        (listed, b'[{"x": 1}]', {"points": [Point(1.0)]}),
        (listed, b'{"points": [{"x": 1}]}', {"points": [Point(1.0)]}),
        (maybe, b"null", {"p": None}),
    ],
)
def test_a_body_becomes_keyword_arguments(fn, body, kwargs):
    made = signature(fn)
    assert made.decode(body) == kwargs
    if body or not made.parameters:
        assert made.convert(msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8) or b"{}")) == kwargs


@pytest.mark.parametrize("body", [b"", b"{}", b'{"n": 1}'])
def test_a_default_that_may_be_changed_is_each_calls_own(body):
    made = signature(easy)
    made.decode(body)["tags"].append("left behind")
    made.bind((), {})["tags"].append("left behind")
    assert made.decode(body)["tags"] == made.bind((), {})["tags"] == []


def test_so_is_one_that_is_an_object():
    def fn(p: Point = Point(1.0), lock: Any = LOCK) -> None: ...  # noqa: B008

    made = signature(fn)
    for change in (made.decode(b"{}"), made.bind((), {})):
        change["p"].x = 2.0
        assert change["lock"] is LOCK
    assert made.decode(b"{}")["p"].x == made.bind((), {})["p"].x == 1.0


def test_the_default_of_a_batched_parameter_is_an_items():
    def fine(xs: list[str], k: list[int] = 5, tags: list[list[str]] = [], more: list[Any] = [1], t: list[int] = None):  # noqa: B006, RUF013
        ...

    assert signature(fine, batched=True).decode(b'{"xs": "a"}') == {
        "xs": "a", "k": 5, "tags": [], "more": [1], "t": None
    }  # fmt: skip

    def wrong(xs: list[str], k: list[int] = [5]): ...  # noqa: B006

    with pytest.raises(SettingError, match=r"the default of k is for an item that leaves it out, and \[5\] is no int"):
        signature(wrong, batched=True)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_array_of_a_batch_may_be_left_out(library):
    kind = np.ndarray if library == "numpy" else torch.Tensor

    def fn(
        x: kind, mask: kind | None = None, bias: Annotated[kind, Array("int64", (None, 2))] | None = None
    ) -> Any: ...

    made = signature(fn, batched=True)
    assert made.libraries() == {"x": library, "mask": library, "bias": library}
    assert made.decode(b'{"x": [1]}')["mask"] is None
    assert made.decode(b'{"x": [1], "mask": null}')["mask"] is None
    full = made.decode(b'{"x": [1], "mask": [0, 1], "bias": [1.0, 2.0]}')
    assert (full["mask"].tolist(), full["bias"].tolist()) == ([0, 1], [1, 2])
    with pytest.raises(SchemaMismatch):
        made.decode(b'{"x": [1], "bias": [1, 2, 3]}')
    rows = Signature.of(fn, batched=True, rows=True).decode(b'{"x": [1], "bias": [[1, 2]]}')
    assert rows["mask"] is None
    assert rows["bias"].tolist() == [[1, 2]]


def plainly(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


def awaitably(fn):
    @functools.wraps(fn)
    async def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


async def asynchronous(x: int) -> int: ...
def iterator(x: int) -> Iterator[int]: ...
def generator(x: int) -> Generator[int, None, None]: ...
def written(x: int) -> "Iterator[int]": ...
def later(x: int) -> AsyncIterator[int]: ...
def much_later(x: int) -> AsyncGenerator[int, None]: ...


@pytest.mark.parametrize(
    ("fn", "kind", "returns"),
    [
        (plainly(text), "plain", str),
        (plainly(asynchronous), "async", int),
        (awaitably(text), "async", str),
        (iterator, "generator", int),
        (plainly(iterator), "generator", int),
        (generator, "generator", int),
        (written, "generator", int),
        (later, "async_generator", int),
        (much_later, "async_generator", int),
    ],
)
def test_what_kind_of_handler_a_function_is(fn, kind, returns):
    made = signature(fn)
    assert (made.kind, made.returns) == (kind, returns)


@pytest.mark.parametrize(
    ("fn", "body", "where", "words"),
    [
        (one, b'{"nmae": 1, "x": 1}', "$.nmae", "unknown field 'nmae'"),
        (one, b'{"X": 1}', "$.X", "did you mean 'x'"),
        (one, b"{}", "$.x", "missing required field"),
        (one, b'{"x": "1"}', "$.x", "Expected `float`, got `str`"),
        (one, b"[]", "$", "Expected `object`"),
        (text, b'{"word": "hi"}', "$.word", "unknown field"),
        (text, b"3", "$", "Expected `str`"),
        (two, b'{"a": 1, "c": 2}', "$.c", "unknown field"),
        (two, b"7", "$", "Expected `object`"),
        (deep, b'{"path": {"points": [{"x": 1}, {"x": 1, "z": 2}]}}', "$.path.points[1].z", "unknown field 'z'"),
        (deep, b'{"path": {"points": [], "tags": {"a": {"q": 1}}}}', "$.path.tags.a.q", "unknown field 'q'"),
        (typed, b'{"text": "a", "points": [{"x": 1, "z": 2}]}', "$.points[0].z", "unknown field"),
        (listed, b'[{"x": 1, "zz": 2}]', "$[0].zz", "unknown field"),
        (listed, b'{"points": [{"x": 1, "zz": 2}]}', "$.points[0].zz", "unknown field"),
        (color, b'{"c": "blue"}', "$.c", "Invalid enum value"),
        (maybe, b'{"q": 1}', "$.q", "unknown field"),
        (two, b'{"a": 1e999}', "$.a", "Number out of range"),
    ],
)
def test_a_body_that_does_not_fit_names_the_field(fn, body, where, words):
    with pytest.raises(SchemaMismatch) as caught:
        signature(fn).decode(body)
    assert words in str(caught.value)
    assert caught.value.field.replace("[...]", "").startswith(where[:2])
    if "1e999" not in body.decode():
        assert caught.value.field == where


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"x": NaN}', b"\xff\xfe", b'{"x": 1} trailing', b"[" * 100_000, b"Infinity"]
)
def test_what_is_not_json_is_malformed(body):
    with pytest.raises(MalformedBody, match="not valid JSON"):
        signature(one).decode(body)


def test_ht_02_a_lone_surrogate_is_refused_in_and_replaced_out():
    with pytest.raises(MalformedBody):
        signature(text).decode(rb'"\ud83d"')
    assert codec.encode({"\ud83d": ["a\ud83d", "👋"]}).decode() == '{"\ufffd":["a\ufffd","👋"]}'


def test_ht_01_numbers_that_json_lacks_become_null():
    value = {"a": [1.0, math.nan], "b": math.inf, "c": np.array([1.0, np.nan]), "d": np.float32("inf")}
    assert msgspec.json.decode(codec.encode(value)) == {"a": [1.0, None], "b": None, "c": [1.0, None], "d": None}


def test_arrays_tensors_and_models_are_written():
    value = [np.int64(3), np.arange(2), torch.ones(2, requires_grad=True), Model(size=1), Color.RED, Point(1.0)]
    assert codec.encode(value) == b'[3,[0,1],[1.0,1.0],{"size":1},"red",{"x":1.0,"y":0.0}]'


def test_what_has_no_json_form_is_the_handlers_error():
    with pytest.raises(HandlerError, match=r"builtins\.object has no JSON form"):
        codec.encode([object()])
    with pytest.raises(HandlerError):
        codec.encode({(1, 2): 3})


def test_a_struct_may_say_which_one_it_is():
    assert signature(tagged).decode(b'{"type": "Tagged", "x": 1}') == {"p": Tagged(1)}
    with pytest.raises(SchemaMismatch, match="Other"):
        signature(tagged).decode(b'{"type": "Other", "x": 1}')
    with pytest.raises(SchemaMismatch, match="unknown field 'typ'"):
        signature(tagged).decode(b'{"typ": "Tagged", "x": 1}')


def test_a_field_is_unknown_to_the_struct_of_a_union_that_it_is_meant_for():
    class Circle(msgspec.Struct, tag="circle", rename="camel"):
        line_width: int = 1

    class Box(msgspec.Struct, tag="box"):
        depth: int = 1

    def either(shape: Circle | Box | None) -> int: ...
    def both(shapes: list[Circle | Box] | Circle) -> int: ...

    made = Signature.of(either, batched=False)
    assert made.decode(b'{"type": "circle", "lineWidth": 2}') == {"shape": Circle(2)}
    assert made.decode(b'{"type": "box", "depth": 2}') == {"shape": Box(2)}
    assert made.decode(b"null") == {"shape": None}
    for body in (b'{"type": "circle", "depth": 2}', b'{"type": "box", "lineWidth": 2}', b'{"type": "ball"}'):
        with pytest.raises(SchemaMismatch):
            made.decode(body)
    made = Signature.of(both, batched=False)
    assert made.decode(b'[{"type": "box"}, {"type": "circle"}]') == {"shapes": [Box(), Circle()]}
    for body, path in ((b'[{"type": "box", "x": 1}]', "$[0].x"), (b'{"type": "circle", "x": 1}', "$.x")):
        with pytest.raises(SchemaMismatch) as told:
            made.decode(body)
        assert told.value.field == path


@dataclass
class Left:
    a: int = 0


@dataclass
class Right:
    b: int = 0


class Both(NamedTuple):
    left: Left
    right: Right
    note: str = ""


@pytest.mark.parametrize("kind", [tuple[Left, Right], Both, Annotated[tuple[Left, Right], "as two"]])
def test_each_element_of_a_tuple_has_fields_of_its_own(kind):
    def takes(one) -> int: ...

    takes.__annotations__["one"] = kind
    made = Signature.of(takes, batched=False)
    assert tuple(made.decode(b'[{"a": 1}, {"b": 2}]')["one"])[:2] == (Left(1), Right(2))
    for body, path in ((b'[{"b": 1}, {"b": 2}]', "$[0].b"), (b'[{"a": 1}, {"a": 2}]', "$[1].a")):
        with pytest.raises(SchemaMismatch) as told:
            made.decode(body)
        assert told.value.field == path


_T = TypeVar("_T")


@dataclass
class Page(Generic[_T]):
    items: list[_T]
    more: "Page[_T] | None" = None


class Boxed(msgspec.Struct, Generic[_T]):
    item: _T


class Entry(TypedDict, Generic[_T]):
    item: _T


@pytest.mark.parametrize(
    ("kind", "body", "value", "odd", "path"),
    [
        (Page[Point], b'{"items": [{"x": 1}]}', Page([Point(1)]), b'{"items": [{"x": 1, "z": 1}]}', "$.items[0].z"),
        (Page[int], b'{"items": [1]}', Page([1]), b'{"items": [1], "n": 1}', "$.n"),
        (Page[int], b'{"items": []}', Page([]), b'{"items": [], "more": {"items": [], "n": 1}}', "$.more.n"),
        (Boxed[Point], b'{"item": {"x": 1}}', Boxed(Point(1)), b'{"item": {"x": 1, "z": 1}}', "$.item.z"),
        (Entry[int], b'{"item": 1}', {"item": 1}, b'{"item": 1, "z": 1}', "$.z"),
    ],
)
def test_a_generic_class_is_an_object_like_any(kind, body, value, odd, path):
    def takes(one) -> int: ...

    takes.__annotations__["one"] = kind
    made = Signature.of(takes, batched=False)
    assert made.decode(body) == {"one": value}
    with pytest.raises(SchemaMismatch) as told:
        made.decode(odd)
    assert told.value.field == path


def test_a_field_that_a_class_of_attrs_does_not_have_is_unknown():
    @attrs.define
    class Held:
        a: int
        b: str = "x"
        c: Any = attrs.field(default=None)

    def takes(held: Held) -> int: ...

    made = Signature.of(takes, batched=False)
    assert made.decode(b'{"a": 1, "c": 2}') == {"held": Held(1, c=2)}
    with pytest.raises(SchemaMismatch, match="unknown field 'bb'"):
        made.decode(b'{"a": 1, "bb": "y"}')


def test_pydantic_models_are_read_and_their_errors_told():
    assert signature(model).decode(b'{"size": 3}') == {"m": Model(size=3)}
    with pytest.raises(SchemaMismatch, match=r"^size: Input should be a valid integer[^\0]*$") as told:
        signature(model).decode(b'{"size": "x"}')
    assert told.value.field == "$.size"
    with pytest.raises(SchemaMismatch, match=r"^Input should be a valid dictionary") as told:
        signature(model).decode(b"[]")
    assert told.value.field == "$"


def test_a_pydantic_model_is_written_by_the_names_that_it_is_read_by():
    class User(pydantic.BaseModel):
        user_name: str = pydantic.Field(alias="userName")

    def echo(user: User) -> User: ...

    made = signature(echo)
    body = made.body_of({"user": User(userName="Ada")})
    assert body == b'{"userName":"Ada"}'
    assert made.decode(body)["user"] == made.answer(body) == User(userName="Ada")


def test_where_a_list_of_pydantic_models_does_not_fit_is_told():
    def many(models: list[Model]) -> int: ...

    with pytest.raises(SchemaMismatch) as told:
        signature(many).decode(b'[{"size": 1}, {"size": "x"}]')
    assert told.value.field == "$[1].size"


class TestArrays:
    def test_an_item_of_a_batch_has_no_first_axis(self):
        def f(rows: Annotated[np.ndarray, Array("float32", (None, 3))]) -> list[int]: ...

        made = signature(f, batched=True)
        item = made.decode(b"[1, 2, 3]")["rows"]
        assert item.dtype == np.float32
        assert item.tolist() == [1.0, 2.0, 3.0]
        stacked = made.collate()["rows"]([item, item])
        assert stacked.shape == (2, 3)

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"[1, 2]", "shape (3), got (2)"),
            (b"[[1, 2], [3]]", "equal lengths"),
            (b'["a", "b", "c"]', "array of numbers"),
            (b"null", "array of numbers"),
        ],
    )
    def test_a_wrong_array_is_refused(self, body, words):
        def f(rows: Annotated[np.ndarray, Array("float32", (None, 3))]) -> list[int]: ...

        with pytest.raises(SchemaMismatch) as caught:
            signature(f, batched=True).decode(body)
        assert words in str(caught.value)

    def test_or_02_a_cast_that_would_lose_is_refused(self):
        def f(ids: Annotated[np.ndarray, Array("int32", (None,))]) -> list[int]: ...

        made = signature(f)
        assert made.decode(b"[1.0, 2.0]")["ids"].dtype == np.int32
        for body in (b"[1.5]", b"[1099511627776]"):
            with pytest.raises(SchemaMismatch, match="int32"):
                made.decode(body)

    def test_a_bare_array_takes_its_type_and_shape_from_the_example(self):
        def f(rows: np.ndarray) -> list[int]: ...

        made = signature(f, batched=True, example=[1.0, 2.0])
        assert made.decode(b"[1, 2]")["rows"].dtype == np.float64
        with pytest.raises(SchemaMismatch, match="shape"):
            made.decode(b"[1, 2, 3]")

    def test_tensors(self):
        def f(x: Annotated[torch.Tensor, Array("float32")]) -> torch.Tensor: ...

        made = signature(f)
        assert torch.equal(made.decode(b"[1, 2]")["x"], torch.tensor([1.0, 2.0]))

    def test_shapes_that_differ_do_not_stack(self):
        def f(x: np.ndarray) -> list[int]: ...

        made = signature(f, batched=True)
        with pytest.raises(ValueError, match="same shape"):
            made.collate()["x"]([made.decode(b"[1]")["x"], made.decode(b"[1, 2]")["x"]])


class TestRefusedAtImport:
    def test_a_batched_parameter_that_is_no_list(self):
        with pytest.raises(SettingError, match=r"annotate it as a list \(list\[int\]\)"):

            @inference_function(batching=Batching())
            def f(x: int) -> list[int]: ...

    def test_a_batched_answer_of_a_fixed_length(self):
        with pytest.raises(SettingError, match=r"tuple\[list\[str\], list\[float\]\] .* give a list of tuples"):

            @inference_function(batching=Batching())
            def f(x: list[str]) -> tuple[list[str], list[float]]: ...

        @inference_function(batching=Batching())
        def g(x: list[str]) -> tuple[str, ...]: ...

    def test_open_parameters(self):
        with pytest.raises(SettingError, match="cannot be a field of a body"):

            @inference_function
            def f(*args: int) -> int: ...

    def test_a_name_that_is_not_defined(self):
        with pytest.raises(SettingError, match="cannot be read"):

            @inference_function
            def f(x: "Unknown") -> int:  # noqa: F821
                ...

    def test_a_type_that_json_has_no_form_for(self):
        with pytest.raises(SettingError, match="cannot be read from JSON"):

            @inference_function
            def f(x: list[int] | dict[str, int] | set[int]) -> int: ...

    def test_a_context_that_does_not_suit(self):
        with pytest.raises(SettingError, match=r"as list\[Context\]"):

            @inference_function(batching=Batching())
            def f(x: list[int], context: Context) -> list[int]: ...


@pytest.mark.parametrize("batched", [False, True])
def test_a_context_that_may_be_left_out_is_no_part_of_the_body(batched):
    def alone(n: int, context: Context | None = None) -> int: ...
    def together(n: list[int], context: list[Context] | None = None) -> list[int]: ...

    made = Signature.of(together if batched else alone, batched=batched)
    assert made.context == "context"
    assert [p.name for p in made.parameters] == ["n"]
    assert made.decode(b"5") == {"n": 5}


def test_raw_bytes():
    def f(image: bytes) -> int: ...

    made = signature(f)
    assert made.raw is not None
    assert made.body_of({"image": b"\x00"}) == b"\x00"
    assert signature(two).raw is None


@pytest.mark.parametrize(
    ("fn", "kwargs"),
    [
        (one, {"greeting": Point(1.0, 2.0)}),
        (text, {"words": "hi"}),
        (two, {"a": 1, "b": "z"}),
        (anything, {"x": {"a": 1}}),
        (listed, {"points": [Point(1.0)]}),
        (nothing, {}),
    ],
)
def test_what_a_client_writes_is_what_a_server_reads(fn, kwargs):
    made = signature(fn)
    assert made.decode(made.body_of(kwargs)) == kwargs


def test_an_answer_is_read_as_the_return_type():
    def f() -> list[tuple[str, float]]: ...

    assert signature(f).answer(b'[["a", 1.5]]') == [("a", 1.5)]
    assert signature(text).answer(b'"x"') == "x"
    assert signature(f).answer(b'[["a", null]]') == [["a", None]]


def test_defaults_of_dataclasses_are_in_an_object_that_is_answered_back():
    kwargs = signature(deep).decode(b'{"path": {"points": [{"x": 1}]}}')
    assert codec.encode(kwargs["path"]) == b'{"points":[{"x":1.0,"y":0.0}],"tags":{}}'
    assert vars(signature(one).decode(b'{"x": 1}')["greeting"]) == {"x": 1.0, "y": 0.0}


def test_schemas_name_both_forms_of_a_lone_parameter():
    body, answer, parts = signature(text).schemas()
    assert body["anyOf"][0] == {"type": "string"}
    assert answer == {"type": "string"}
    assert parts["text_body"]["required"] == ["words"]
    assert signature(one).schemas()[0] == {"$ref": "#/components/schemas/Point"}


def test_exceptions_are_no_part_of_the_schema():
    def f(x: list[str]) -> list[dict[str, int] | Exception]: ...

    assert signature(f, batched=True).schemas()[1] == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(("dtype", "number"), [("float32", "1e39"), ("float16", "70000"), ("float16", "-1e6")])
def test_or_02_a_number_beyond_its_element_type_is_no_infinity(dtype, number):
    def fn(a: Annotated[np.ndarray, Array(dtype, (None,))]) -> Any: ...

    assert signature(fn).decode(b"[1.5, 0.1]")["a"].dtype == dtype
    with pytest.raises(SchemaMismatch, match=f"within {dtype}"):
        signature(fn).decode(f"[1, {number}]".encode())
