"""What handlers are given, as the callers sent it: a handler may change it, and may be called with it again."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Sequence
from typing import Any, Final

from faas.engine.owned import MANY, num_values
from faas.messages import Call

_STAY: Final = frozenset((str, int, float, bool, type(None), bytes))
"""Types of what no handler can change."""


class Kept:
    """The inputs of a batch, as bytes. `copied` names the parameters of which the handler gets copies anyway.

    What cannot be pickled, and a value of more than `MANY`, which would hold up others, is not kept: to be called again
    with that, a handler has to leave it as it is.
    """

    def __init__(self, calls: Sequence[Call], copied: Collection[str]) -> None:
        self._packed: dict[Call, bytes] = {}
        for call in calls:
            own = {name: value for name, value in call.kwargs.items() if _can_change(name, value, copied)}
            if own and (packed := _packed(own)) is not None:
                self._packed[call] = packed

    def restore(self, calls: Sequence[Call]) -> None:
        """Give each of `calls` its input anew."""
        import pickle  # here and below: nothing to those whose batches go well, or hold what cannot be changed

        for call in calls:
            packed = self._packed.get(call)
            if packed is not None and not call.done:
                with contextlib.suppress(Exception):  # whatever a user's own type raises
                    call.kwargs = call.kwargs | pickle.loads(packed)


def kept(calls: Sequence[Call], copied: Collection[str]) -> Kept | None:
    """Return what brings the inputs of a batch back; None where no handler can change them, as in most batches."""
    for call in calls:
        for name, value in call.kwargs.items():
            if _can_change(name, value, copied):
                return Kept(calls, copied)
    return None


def copies(value: Any, num: int) -> list[Any]:
    """Return `num` values equal to one, of which a handler can change each without changing another."""
    return [value] * num if type(value) in _STAY else [_copy(value) for _ in range(num)]


def _can_change(name: str, value: Any, copied: Collection[str]) -> bool:
    return type(value) not in _STAY and name not in copied


def _packed(values: dict[str, Any]) -> bytes | None:
    if any(num_values(value) > MANY for value in values.values()):
        return None
    import pickle

    try:
        return pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # whatever a user's own reduction raises
        return None


def _copy(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever a user's own copying raises
        return value
