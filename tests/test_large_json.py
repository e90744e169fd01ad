"""What is read in slices is what a decoder reads."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faas import large_json, large_memory, long_strings
from faas.large_json import NOT_SO

SLICE = 48
NUMBERS = [x / 7 for x in range(-50, 50)]

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text('\\"[]{},: ', max_size=60)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(texts, inner, max_size=6),
    max_leaves=60,
)


@pytest.fixture(autouse=True, scope="module")
def _short() -> Any:
    """Take less for long, and for a slice, and pause not at all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "SLICE_BYTES", SLICE)
        patch.setattr(long_strings, "PIECE_BYTES", 17)
        patch.setattr(large_memory, "PAUSE_S", 0.0)
        yield


def decoded(body: bytes) -> Any:
    """What the decoder says; NOT_SO where it is no JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NOT_SO


@settings(deadline=None, max_examples=60)
@given(values, st.booleans(), st.sampled_from([None, 1]))
@example([NUMBERS, {"a": NUMBERS, "b": [[1, 2]] * 40}], True, None)
@example([[{"x" * 100: "y" * 100}, []]], True, 1)
@example({"k": {"k": {"k": [0] * 100}}}, True, None)
def test_any_json_is_read_as_the_decoder_reads_it(value: Any, escaped: bool, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    found = large_json.read(body)
    assert found is not NOT_SO
    assert found == decoded(body)
    assert json.dumps(found) == json.dumps(decoded(body))  # 1 is not 1.0, nor True


@settings(deadline=None, max_examples=60)
@given(values, st.data())
def test_what_is_broken_is_never_read_as_something_else(value: Any, data: st.DataObject) -> None:
    body = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(body) - 1))
    how = data.draw(st.sampled_from(["cut", "drop", "put", "double"]))
    put = data.draw(st.sampled_from(b'[]{},:"\\ 0a\xff'))
    if how == "cut":
        del body[at:]
    elif how == "drop":
        del body[at]
    else:
        body[at : at + (how == "put")] = bytes([put])
    found = large_json.read(bytes(body))
    assert found is NOT_SO or found == decoded(bytes(body))


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(NUMBERS).encode(),
        json.dumps([[x, -x] for x in NUMBERS]).encode(),
        json.dumps([{"id": x, "name": f'"{x}', "tags": ["a, b", "]"]} for x in range(60)]).encode(),
        json.dumps([NUMBERS] * 3).encode(),
        json.dumps({"a": {"b": {"c": NUMBERS}}, "d": "x" * 300, "e": [[]] * 90}).encode(),
        json.dumps("a\u00e9\u20ac\U0001f600" * 60, ensure_ascii=False).encode(),
        json.dumps('\\"\n' * 200).encode(),
        b" " * 200 + b"[" + b" " * 200 + b"1" + b" " * 200 + b",2]" + b"\n" * 200,
        b'{"a":1,"a":' + b"[1]," * 40 + b'"a":2}',
        b'{"' + b"k" * 100 + b'":1,"' + b"l" * 100 + b'":null}',
        b"[" + b"1" * 100 + b"]",
        b"[]",
        b"12",
    ],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_what_is_long_in_any_way_is_read(body: bytes) -> None:
    assert large_json.read(body) == decoded(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[1,2,]" + b" " * 100,
        b"[,1]",
        b"[" + b"1," * 100 + b"]",
        b"[" + b"1," * 100 + b"1}",
        b"[" + b"1," * 100 + b"1]]",
        b"[" + b"1," * 100,
        b"[" + b"1 " * 100 + b"]",
        b'{"a":1,}' + b" " * 100,
        b'{"a":' + b"[" * 100,
        b'{"a" 1' + b"1" * 100 + b"}",
        b'["' + b"x" * 100,
        b'["' + b"x" * 100 + b'\x01"]',
        b'["' + b"x" * 100 + b'\xff"]',
        b'["' + b"x" * 100 + b'\\ud800"]',
        b"[NaN" + b",1" * 100 + b"]",
        b"",
        b" " * 100,
        b"\xef\xbb\xbf[1]",
    ],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_what_is_no_json_is_left_to_the_decoder(body: bytes) -> None:
    assert decoded(body) is NOT_SO
    assert large_json.read(body) is NOT_SO


def test_what_is_long_inside_of_long_things_again_and_again_is_left_to_the_decoder() -> None:
    deep = b"[" * 100 + b"1," * 40 + b"1" + b"]" * 100
    assert decoded(deep) is not NOT_SO
    assert large_json.read(deep) is NOT_SO
    often = b"[" + b",".join([b"[1," * 20 + b"1," * 40 + b"1" + b"]" * 20] * 40) + b"]"
    assert decoded(often) is not NOT_SO
    assert large_json.read(often) is NOT_SO


def test_an_ascii_string_made_of_pieces_is_like_any_other() -> None:
    [read] = large_json.read(json.dumps(["ab" * 500]).encode())
    assert read.isascii()
    assert {read: 1}["ab" * 500] == 1
    assert read + "c" == "ab" * 500 + "c"


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u20ac", "\U0001f600"])
def test_a_string_made_of_pieces_is_as_wide_as_it_has_to_be(letter: str) -> None:
    read = large_json.read(json.dumps("x" * 100 + letter * 100, ensure_ascii=False).encode())
    assert read == "x" * 100 + letter * 100
    assert hash(read) == hash("x" * 100 + letter * 100)
