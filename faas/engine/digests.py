"""A digest of what a handler is called with: equal exactly where no handler could tell two inputs apart."""

from __future__ import annotations

from typing import Any, Final

import blake3
import msgspec

_NUM_BYTES: Final = 16
_ARRAY: Final = 1
_SCALAR: Final = 2


class Digests:
    """Digests of inputs within one `scope`, the names under which answers are told apart.

    Numbers of two types, text and bytes, arrays of two element types or shapes differ. The order of the keys of a
    mapping and of the members of a set does not count.
    """

    def __init__(self, *scope: str) -> None:
        self._base = blake3.blake3(_ENCODER.encode(scope))

    def of(self, kwargs: dict[str, Any]) -> bytes | None:
        """Return the digest; None for an input of which there is none: it holds an object of an unknown kind."""
        try:
            written = _ENCODER.encode(kwargs)
            if _MOMENT in written or _LATE_MOMENT in written or _FAR_MOMENT in written:
                written += _AS_TEXT.encode(kwargs)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return None
        return self._base.copy().update(written).digest(length=_NUM_BYTES)


def _encode_hook(value: Any) -> Any:
    root = type(value).__module__.partition(".")[0]
    if root == "numpy" and hasattr(value, "tobytes") and not value.dtype.hasobject:
        return msgspec.msgpack.Ext(
            _ARRAY if hasattr(value, "__array_interface__") and value.shape else _SCALAR,
            _header("numpy", _type_of(value), value.shape) + value.tobytes(),
        )
    if root == "torch" and hasattr(value, "detach"):
        import torch  # the value is a tensor, so it is loaded

        header = _header("torch", str(value.dtype), tuple(value.shape))
        if value.numel() == 0:  # torch does not view nothing as bytes
            return msgspec.msgpack.Ext(_ARRAY, header)
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return msgspec.msgpack.Ext(_ARRAY, header + flat.tobytes())
    if hasattr(value, "model_dump"):
        return [type(value).__qualname__, *_state_of_model(value)]
    raise TypeError(f"{type(value).__qualname__} has no digest")


def _state_of_model(model: Any) -> list[Any]:
    """Return what a pydantic model holds. A dump may leave fields out, or write them otherwise than they are."""
    return [vars(model), getattr(model, "__pydantic_extra__", None), getattr(model, "model_fields_set", None)]


def _type_of(array: Any) -> Any:
    """Return an array's element type; of records it is told by their fields."""
    return array.dtype.str if array.dtype.names is None else array.dtype.descr


def _header(*form: Any) -> bytes:
    return _ENCODER.encode(form)


def _text_hook(value: Any) -> Any:
    return vars(value) if hasattr(value, "model_dump") else None


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode_hook, order="deterministic")

_MOMENT, _LATE_MOMENT, _FAR_MOMENT = b"\xd6\xff", b"\xd7\xff", b"\xc7\x0c\xff"
"""What a moment with an offset may begin with in MessagePack, and other things may hold.

It is written as one of UTC, and a handler that asks for its hour can tell it from one of another offset.
"""

_AS_TEXT: Final = msgspec.json.Encoder(enc_hook=_text_hook, order="deterministic")
"""Writes moments with their offsets; what it leaves out has been written."""
