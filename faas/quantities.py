"""Sizes as people write them: `512Mi`, `2Gi`, `1500000`."""

from __future__ import annotations

import re

from faas.errors import SettingError

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def parse_bytes(value: str | int, setting: str) -> int:
    """Return the number of bytes that a Kubernetes quantity names.

    Raises:
        SettingError: `value` is not a positive quantity; the message names `setting`.
    """
    match = _QUANTITY.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    if match is None or match[2] not in _UNITS:
        near = f"; {match[1]}{match[2][0].upper()}i may be meant" if match and match[2][:1].upper() in "KMGT" else ""
        raise SettingError(
            f"{setting}={value!r} is no size: write a number with one of Ki, Mi, Gi, k, M, G, or none{near}"
        )
    size = int(float(match[1]) * _UNITS[match[2]])
    if size <= 0:
        raise SettingError(f"{setting}={value!r} must be larger than zero")
    return size
