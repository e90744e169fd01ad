"""Answers and labels as values that can be compared: equal where they are equal as JSON."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from faas import codec

_NUM_BYTES: Final = 16


def label_of(value: Any) -> bytes:
    """Return the same 16 bytes for all values that are written as the same JSON; 1 and 1.0 are one number.

    Raises:
        HandlerError: `value` has no JSON form.
    """
    written = _ENCODER.encode(_plain(codec.decode_value(codec.encode(value))))
    return hashlib.blake2b(written, digest_size=_NUM_BYTES).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
