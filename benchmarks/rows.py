"""What a benchmark finds: rows of one figure each, some with a bar that the figure must hold."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Bar:
    """The limit that a figure must hold."""

    relation: Literal["<=", ">="]
    limit: float

    def __str__(self) -> str:
        return f"{self.relation} {self.limit:g}"

    def admits(self, value: float) -> bool:
        """Whether `value` is on the right side, the limit itself included; not-a-number never is."""
        return value <= self.limit if self.relation == "<=" else value >= self.limit


def at_most(limit: float) -> Bar:
    """The bar of a figure that must not be larger."""
    return Bar("<=", limit)


def at_least(limit: float) -> Bar:
    """The bar of a figure that must not be smaller."""
    return Bar(">=", limit)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `value` None means that it could not be measured, which holds no bar and is a failure without one."""

    metric: str
    value: float | None
    unit: str = ""
    bar: Bar | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the figure holds its bar; None for a figure that has none."""
        if self.value is None:
            return False
        return None if self.bar is None else self.bar.admits(self.value)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values that `json.dumps` takes."""
        return {
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "bar": None if self.bar is None else str(self.bar),
            "holds": self.holds,
        }


def short_of(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that do not hold."""
    return [row for row in rows if row.holds is False]


def verdict(rows: Iterable[Row]) -> str:
    """Return one line: that all bars hold, or each figure that falls short with its bar."""
    rows = list(rows)
    falling = short_of(rows)
    if not falling:
        num_bars = sum(row.bar is not None for row in rows)
        return f"all {num_bars} bars hold" if num_bars else "nothing was held to a bar"
    return "falls short: " + "; ".join(map(_described, falling))


def _described(row: Row) -> str:
    if row.value is None:
        return f"{row.metric} (not measured)"
    return f"{row.metric} ({_with_unit(shown(row.value), row.unit)}, bar {row.bar})"


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number


def shown(value: float) -> str:
    """Return a figure as a person reads it: whole where it is whole or large, else three digits or so."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
