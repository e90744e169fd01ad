"""An answer as bytes that nobody can change, and back as an object of whoever asks."""

from __future__ import annotations

import io
import logging
import pickle
from typing import Any

_log = logging.getLogger(__name__)


def pack(value: Any) -> bytes | None:
    """Return `value` as bytes; None where that cannot be done."""
    held = io.BytesIO()
    try:
        _Pickler(held, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception as error:  # whatever a user's own reduction raises
        _log.warning("an answer of type %s cannot be kept: %s", type(value).__qualname__, error)
        return None
    return held.getvalue()


def unpack(packed: bytes) -> Any:
    """Return the value again, as a new object. Raises whatever the value's own types do where they cannot be made."""
    return pickle.loads(packed)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Take of a tensor its own elements alone: it may be a view of a whole batch's."""
        if type(value).__module__.partition(".")[0] != "torch" or not hasattr(value, "untyped_storage"):
            return NotImplemented
        if value.untyped_storage().nbytes() == value.nbytes:
            return NotImplemented
        return value.detach().clone().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
