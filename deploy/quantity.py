"""Kubernetes quantities: `500m`, `2Gi`, `1.5`, `1e3`.

The grammar is that of the Kubernetes API (a decimal number, then a binary suffix, a decimal suffix or an exponent).
What the API would take but nobody means (`512` bytes of memory, `512m` of a byte) is refused here, where it was typed.
Amounts are fractions: an application's precision of decimal numbers, set as it was imported, changes none of them.
"""

import re
from fractions import Fraction

from deploy.errors import InvalidQuantity

_GRAMMAR = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII)
_SUFFIXES = {
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("num", start=-3)},
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_MILLI = Fraction("0.001")
_MIN_MEMORY = Fraction(16 * 1024**2)


def parse(option: str, text: str) -> Fraction:
    """The number that `text` stands for, in cores or bytes; `option` is named in the `InvalidQuantity` it may raise."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise InvalidQuantity(option, text, "is not a Kubernetes quantity", _hint(text))
    number, exponent, suffix = match.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _SUFFIXES.get(suffix, Fraction(1)))


def cpu(option: str, value: str | float) -> str:
    """Cores in the form that the API server gives back: whole (`2`) or in thousandths (`500m`)."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidQuantity(option, value, "is not an amount of CPU", "write cores, such as 0.5, 2 or '500m'")
    cores = parse(option, str(value))
    if cores < _MILLI or cores % _MILLI:
        raise InvalidQuantity(
            option, value, "is not a positive number of thousandths of a core", "write cores, such as 0.5, 2 or '500m'"
        )
    return str(int(cores)) if cores % 1 == 0 else f"{int(cores / _MILLI)}m"


def memory(option: str, value: str) -> str:
    """`value`, once it is known to be an amount of memory in which a process could run."""
    if not isinstance(value, str):
        raise InvalidQuantity(option, value, "is not text with a unit", "write a unit, such as '512Mi' or '2Gi'")
    if (num_bytes := parse(option, value)) < _MIN_MEMORY:
        raise InvalidQuantity(
            option,
            value,
            f"is {float(num_bytes):g} bytes, in which nothing starts",
            "write a unit, such as '512Mi' or '2Gi'",
        )
    return value


def _hint(text: str) -> str:
    """What may have been meant: most wrong units are a right one in the wrong case, or with a B."""
    number = re.match(r"\s*(\d+(?:\.\d+)?)\s*([kmgt])i?b?\s*\Z", text, re.IGNORECASE | re.ASCII)
    if number is None:
        return "write a number and one of the units m, k, M, G, T, Ki, Mi, Gi, Ti, such as '500m' or '2Gi'"
    binary = f"{number[1]}{number[2].upper()}i"
    return f"write '{binary}' (powers of 1024) or '{binary[:-1].replace('K', 'k')}' (powers of 1000)"
