"""Traces of calls in the format of the Azure Functions invocation trace of 2021.

A CSV with the columns `app`, `func`, `end_timestamp` and `duration`, the last two in seconds.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from faas.errors import BadTrace
from faas.platform.simulation import Call

COLUMNS = ("app", "func", "end_timestamp", "duration")


@dataclass(frozen=True)
class Trace:
    """The calls of each function, by app and func, in their order, and how long it is: seconds from its first call."""

    calls: dict[tuple[str, str], list[Call]]
    duration_s: float


def read(path: Path) -> Trace:
    """Return the trace in a file; its first call comes at 0.

    Raises:
        BadTrace: it is no such trace.
    """
    began_at: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    last_s = -math.inf
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if not set(COLUMNS) <= set(rows.fieldnames or ()):
                raise BadTrace(f"{path} is no trace: its first line must name the columns {', '.join(COLUMNS)}")
            for row in rows:
                end_s, took_s = _seconds(path, rows.line_num, row)
                began_at[row["app"], row["func"]].append((end_s - took_s, took_s))
                last_s = max(last_s, end_s)
    except (OSError, UnicodeDecodeError) as error:
        raise BadTrace(f"{path} cannot be read: {error}") from None
    if not began_at:
        raise BadTrace(f"{path} has no calls")
    first_s = min(at_s for calls in began_at.values() for at_s, _ in calls)
    found = {key: [Call(at_s - first_s, took_s) for at_s, took_s in sorted(calls)] for key, calls in began_at.items()}
    return Trace(found, last_s - first_s)


def _seconds(path: Path, line: int, row: dict[str, str]) -> tuple[float, float]:
    try:
        end_s, took_s = float(row["end_timestamp"]), float(row["duration"])
    except (TypeError, ValueError):
        end_s, took_s = math.nan, math.nan
    if not math.isfinite(end_s) or not 0 <= took_s < math.inf:
        given = f"end_timestamp={row['end_timestamp']!r}, duration={row['duration']!r}"
        raise BadTrace(f"{path}, line {line}: {given}: must be seconds")
    return end_s, took_s
