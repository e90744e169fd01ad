"""Settings that a library has once for a whole process: `setup()` may change them, and no snapshot holds them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from faas import modules

_ANY: Final = object()


@dataclass(frozen=True)
class _Setting:
    """One setting of a module. `initial` is what it is when the module has just been imported."""

    title: str
    module: str
    read: Callable[[Any], object]
    initial: object = _ANY


def _is_users(place: str) -> bool:
    """Tell whether a place to look for modules is none that installations have."""
    return not place.startswith("/") or modules.is_users_file(f"{place}/")


_SETTINGS: Final = (
    _Setting("torch's default dtype", "torch", lambda torch: str(torch.get_default_dtype()), "torch.float32"),
    _Setting("torch's default device", "torch", lambda torch: str(torch.get_default_device()), "cpu"),
    _Setting("torch's precision of products", "torch", lambda torch: torch.get_float32_matmul_precision(), "highest"),
    _Setting("torch's determinism", "torch", lambda torch: torch.are_deterministic_algorithms_enabled(), False),
    _Setting("NumPy's error state", "numpy", lambda numpy: numpy.geterr()),
    _Setting("decimal's precision", "decimal", lambda decimal: decimal.getcontext().prec, 28),
    _Setting("decimal's rounding", "decimal", lambda decimal: decimal.getcontext().rounding, "ROUND_HALF_EVEN"),
    _Setting("the locale", "locale", lambda locale: locale.setlocale(locale.LC_ALL)),
    _Setting("the working directory", "os", lambda os: os.getcwd()),
    _Setting("places that modules are found in", "sys", lambda sys: [one for one in sys.path if _is_users(one)]),
    _Setting("how many digits Python's integers are written with", "sys", lambda sys: sys.get_int_max_str_digits()),
    _Setting("how long sockets wait", "socket", lambda socket: socket.getdefaulttimeout(), None),
    _Setting("csv's limit of fields", "csv", lambda csv: csv.field_size_limit(), 131072),
)


def now() -> dict[str, object]:
    """Return what is set now, of the modules that are loaded."""
    return {one.title: one.read(sys.modules[one.module]) for one in _SETTINGS if one.module in sys.modules}


def changed_since(before: Mapping[str, object]) -> list[str]:
    """Return what has been set otherwise since `before`, or since its module was loaded, in words."""
    initial = {one.title: one.initial for one in _SETTINGS}
    return [
        title
        for title, value in now().items()
        if (was := before.get(title, initial[title])) is not _ANY and was != value
    ]
