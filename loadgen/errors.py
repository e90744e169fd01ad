"""What can go wrong in this package.

    LoadError
    ├── SettingError    a setting that cannot be driven, refused when it is made (also a ValueError)
    └── WorkerError     a load process ended without handing in what it recorded

A request that fails is no error here: it is a sample with an outcome.
"""


class LoadError(Exception):
    """Root of every error of this package."""


class SettingError(LoadError, ValueError):
    """A setting that cannot be driven; names the setting, its value and what to give instead."""


class WorkerError(LoadError):
    """A load process ended without handing in what it recorded."""
