"""What can go wrong in this package.

    LoadError
    ├── SettingError    a setting that cannot be driven, refused when it is made (also a ValueError)
    └── WorkerError     a load process ended without handing in what it recorded

A request that fails is no error here: it is a sample with an outcome.
"""

import math


class LoadError(Exception):
    """Root of every error of this package."""


class SettingError(LoadError, ValueError):
    """A setting that cannot be driven; names the setting, its value and what to give instead."""


class WorkerError(LoadError):
    """A load process ended without handing in what it recorded."""


def require_positive(name: str, value: float, unit: str) -> None:
    """Raise SettingError unless `value` is a finite number above zero."""
    if not math.isfinite(value) or value <= 0:
        raise SettingError(f"{name} is {value!r}; give a finite number of {unit} above 0")


def require_at_least(name: str, value: int, least: int, unit: str) -> None:
    """Raise SettingError unless `value` is a whole number and not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{name} is {value!r}; give a whole number of {unit}, at least {least}")
