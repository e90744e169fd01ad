import json
from typing import Any

import pytest

from faas import long_strings
from faas.long_strings import NOT_SO
from faas.schema import Signature

LONG = 5000


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take less for long, and for a piece."""
    monkeypatch.setattr(long_strings, "LONG_BYTES", 4000)
    monkeypatch.setattr(long_strings, "PIECE_BYTES", 700)


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize(
    "value",
    [
        "x" * LONG,
        {"name": "a", "file": "eA==" * LONG, "tags": ["b", None, 1.5, {"c": True}]},
        [{"first": "\u00e9 \n" * LONG}, "y" * LONG, 'say "no" \\' * LONG],
        {"k" * LONG: 1},
        "\\" * LONG,
    ],
    ids=["bare", "a field", "several", "a key", "escapes alone"],
)
def test_what_is_read_in_pieces_is_what_json_says(value: Any, escaped: bool):
    read = long_strings.read(json.dumps(value, ensure_ascii=escaped).encode())
    assert read is not NOT_SO
    assert read == value


def test_an_ascii_string_made_of_pieces_is_like_any_other():
    [read] = long_strings.read(json.dumps(["ab" * LONG]).encode())
    assert read.isascii()
    assert {read: 1}["ab" * LONG] == 1
    assert read + "c" == "ab" * LONG + "c"


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * LONG + b"1]",
        json.dumps(["ab"] * LONG).encode(),
        b'{"a":"' + b"x" * LONG + b'","b":[' + b"1," * LONG + b"1]}",
        b'"' + b"x" * LONG,
        b'"' + b"x" * LONG + b'\x01"',
        b'"' + b"x" * LONG + b'\xff"',
        b'"' + b"x" * LONG + b'"]',
    ],
    ids=["numbers", "short strings", "much besides", "no end", "a control character", "no UTF-8", "no JSON around it"],
)
def test_what_is_not_of_long_strings_or_not_json_is_left_to_the_decoder(body: bytes):
    assert long_strings.read(body) is NOT_SO


def test_a_large_body_is_held_to_the_signature_as_any_is():
    def handler(name: str, data: str) -> int: ...

    signature = Signature.of(handler, batched=False)
    good = json.dumps({"name": "a", "data": "x" * LONG}).encode()
    assert signature.decode_large(good) == signature.decode(good)
    for bad in ({"name": 1, "data": "x" * LONG}, {"data": "x" * LONG}, {"name": "a", "data": ["x" * LONG]}):
        body = json.dumps(bad).encode()
        with pytest.raises(Exception) as whole:  # noqa: PT011 (which one it is is the other's matter)
            signature.decode(body)
        with pytest.raises(type(whole.value)) as in_pieces:
            signature.decode_large(body)
        assert in_pieces.value.args == whole.value.args
