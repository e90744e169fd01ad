"""How a policy is made and its values are checked: what all of them share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TypeVar, dataclass_transform

from faas import names
from faas.errors import SettingError

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def policy(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, keyword-only dataclass that names the nearest right keyword when given a wrong one."""
    made = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    fields = dataclasses.fields(made)  # type: ignore[arg-type]
    known = [field.name for field in fields]
    nothing = dataclasses.MISSING
    needed = [field.name for field in fields if field.default is nothing and field.default_factory is nothing]
    generated = made.__init__

    def __init__(self: object, *args: object, **values: object) -> None:  # noqa: N807
        if args:
            raise SettingError(f"{cls.__name__} takes keywords only: {', '.join(known)}")
        refuse_unknown(cls.__name__, values, known)
        for name in needed:
            if name not in values:
                raise SettingError(f"{cls.__name__}() says nothing of {name}, which has no default: write {name}=...")
        generated(self, **values)

    made.__init__ = __init__  # type: ignore[method-assign]
    return made


def refuse_unknown(what: str, given: Mapping[str, object], known: list[str]) -> None:
    """Raise SettingError for the first key of `given` that is not in `known`."""
    for key in given:
        if key not in known:
            raise SettingError(
                f"{what} has no setting {key!r}{names.suggestion(key, known)}; it has: {', '.join(known)}"
            )


def whole(owner: object, field: str, low: int, high: int | None = None) -> None:
    """Raise SettingError unless the field holds a whole number from `low` to `high`."""
    value = getattr(owner, field)
    if not is_whole(value, low, high):
        span = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be a whole number {span}")


def is_whole(value: object, low: int, high: int | None = None) -> bool:
    """Tell whether `value` is a whole number from `low` to `high`."""
    numeric = isinstance(value, int) and not isinstance(value, bool)
    return numeric and value >= low and (high is None or value <= high)  # type: ignore[operator]


def number(owner: object, field: str, low: float, *, above: bool = False) -> None:
    """Raise SettingError unless the field holds a finite number of at least `low`, or above it."""
    value = getattr(owner, field)
    numeric = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not numeric or value < low or (above and value == low):
        bound = f"above {low:g}" if above else f"of at least {low:g}"
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be a finite number {bound}")


def choice(owner: object, field: str, choices: tuple[str, ...]) -> None:
    """Raise SettingError, with the nearest right one, unless the field holds one of `choices`."""
    value = getattr(owner, field)
    if value not in choices:
        near = names.suggestion(str(value), choices)
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be one of {', '.join(choices)}{near}")


def flag(owner: object, field: str) -> None:
    """Raise SettingError unless the field holds True or False."""
    value = getattr(owner, field)
    if not isinstance(value, bool):
        raise SettingError(f"{type(owner).__name__}({field}={value!r}): must be True or False")
