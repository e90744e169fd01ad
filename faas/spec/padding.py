"""How items of unequal length become one batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from faas.errors import SettingError
from faas.spec.checks import choice, number, policy

Collate = Callable[[dict[str, list[Any]], int], dict[str, Any]]


@policy
class Pad:
    """How items of unequal length become one batch, and answers get their item's length again.

    Every parameter that is an array or a list of numbers is filled up with `value`, at the `side` named, to the length
    of the longest item or of its bucket. `mask` and `lengths` name parameters of the handler that are told which
    elements are an item's own (True), and how many those are; they are no part of the body. `answers` "ragged" says
    that an answer which is a list or an array has the length of its padded item, and is cut to the item's own; "whole"
    leaves answers alone.

    `collate` does the filling in place of `value`: it gets the items of each parameter and the length to fill up to,
    and returns the handler's arguments by name, `mask` and `lengths` among them where they are named.
    """

    value: float = 0
    side: Literal["right", "left"] = "right"
    mask: str | None = None
    lengths: str | None = None
    answers: Literal["ragged", "whole"] = "ragged"
    collate: Collate | None = None

    def __post_init__(self) -> None:
        number(self, "value", -math.inf)
        choice(self, "side", ("right", "left"))
        choice(self, "answers", ("ragged", "whole"))
        for field in ("mask", "lengths"):
            name = getattr(self, field)
            if name is not None and (not isinstance(name, str) or not name.isidentifier()):
                raise SettingError(f"Pad({field}={name!r}): must be the name of a parameter of the handler")
        if self.mask is not None and self.mask == self.lengths:
            raise SettingError(f"Pad(mask={self.mask!r}, lengths={self.lengths!r}): name two parameters")
        if self.collate is not None and not callable(self.collate):
            raise SettingError(f"Pad(collate={self.collate!r}): must be a function of the items and a length")
        if self.collate is not None and self.value != 0:
            raise SettingError(f"Pad(value={self.value!r}, collate=...): collate does the filling; leave value out")

    @property
    def names(self) -> tuple[str, ...]:
        """The handler's parameters that are not part of the body."""
        return tuple(name for name in (self.mask, self.lengths) if name is not None)

    @classmethod
    def of(cls, given: object) -> Pad:
        """Return the padding that a number, a collate function or a `Pad` stands for.

        Raises:
            SettingError: it is none of them.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, int | float) and not isinstance(given, bool):
            return cls(value=given)
        if callable(given) and not isinstance(given, type):
            return cls(collate=given)
        raise SettingError(f"Batching(pad={given!r}): must be a number, a collate function or a Pad(...)")
