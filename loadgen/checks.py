"""Checks that settings have in common: each names the setting, its value and what to give instead."""

import math

from loadgen.errors import SettingError


def require_positive(name: str, value: float, unit: str) -> None:
    """Raise SettingError unless `value` is a finite number above zero."""
    if not _is_finite(value) or value <= 0:
        raise SettingError(f"{name} is {value!r}; give a finite number of {unit} above 0")


def require_not_negative(name: str, value: float, unit: str) -> None:
    """Raise SettingError unless `value` is a finite number, zero or above."""
    if not _is_finite(value) or value < 0:
        raise SettingError(f"{name} is {value!r}; give a finite number of {unit}, 0 or above")


def require_whole(name: str, value: int, least: int) -> None:
    """Raise SettingError unless `value` is a whole number and not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{name} is {value!r}; give a whole number, at least {least}")


def _is_finite(value: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
