"""MiniLM woken from zero many times, against its start the plain way and its first answer by others' servers.

All in one run: what the machine does meanwhile, it does to all of them. And what each of its instances holds alone.
"""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.area import Bench
from benchmarks.box import running_box
from benchmarks.measures import cold_start, memory
from benchmarks.peer_environments import NotInstalledError, python_of
from benchmarks.processes import ServerError
from benchmarks.rivals import RIVALS, title
from benchmarks.rows import Row, at_least, at_most
from benchmarks.served import peer

_MOST_P99_OVER_P50 = 3.0
_PLAIN_EVERY = 40  # wake-ups


@dataclass(frozen=True)
class Kind:
    """Zygotes of one kind, by the module whose platform has them.

    Their instances are to answer so many times sooner, and to hold no more alone.
    """

    name: str
    module: str
    times_sooner: float
    private_dirty_mib: float


_KINDS = (Kind("hot", "faas.cli.main", 100.0, 12.0), Kind("generic", "benchmarks.generic", 50.0, 28.0))
_NUM_INSTANCES = 4


@dataclass(frozen=True)
class Woken:
    """How long each wake-up took, and the Private_Dirty of the one of several instances that holds the most."""

    took_ms: list[float]
    private_dirty_mib: float


async def measure(bench: Bench) -> list[Row]:
    num_wakes, num_peer_starts = bench.choose((200, 2), (20, 1))
    plain_ms: list[float] = []
    woken = {kind.name: await _woken(bench, kind, num_wakes, plain_ms) for kind in _KINDS}
    peers_ms = {name: await _peer_ms(bench, name, num_peer_starts) for name in RIVALS}
    return _rows(median(plain_ms), woken, peers_ms)


async def _woken(bench: Bench, kind: Kind, num_wakes: int, plain_ms: list[float]) -> Woken:
    """Wake up many times; add to `plain_ms` what starts the plain way took in between."""
    found = []
    async with (
        running_box(bench.home, "handlers.embed", module=kind.module) as box,
        box.caller("embed", cold_start.SENTENCE) as caller,
    ):
        await cold_start.wake(box, caller, "embed")  # the first of a platform's life
        for number in range(num_wakes):
            if number % _PLAIN_EVERY == 0:
                plain_ms.append((await cold_start.plain_start()).total_ms)
            found.append((await cold_start.wake(box, caller, "embed")).total_ms)
        held = await memory.look(box, "embed", _NUM_INSTANCES)
    return Woken(found, held.most_private_dirty_mib)


async def _peer_ms(bench: Bench, name: str, num_starts: int) -> float | None:
    """Return the median time of a peer from nothing to its first answer; None where it cannot be had here."""
    try:
        python = await python_of(name)
        took_ms = [await _start_ms(bench, name, python) for _ in range(num_starts + 1)]
    except (NotInstalledError, ServerError) as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None
    return median(took_ms[1:])  # the first one compiles its modules


async def _start_ms(bench: Bench, name: str, python: Path) -> float:
    rival, began_at = RIVALS[name], time.monotonic()
    async with peer(rival.module, bench.home, rival.body(cold_start.SENTENCE), path=rival.path, python=python):
        return (time.monotonic() - began_at) * 1e3


def _rows(plain_ms: float, woken: dict[str, Woken], peers_ms: dict[str, float | None]) -> list[Row]:
    rows = [Row("plain start to the first answer, p50", plain_ms, "ms")]
    known_ms = [ms for ms in peers_ms.values() if ms is not None]
    for name, ms in peers_ms.items():
        what = f"{title(name)}: start to the first answer"
        rows.append(Row(f"{what}, could not be had", 0.0) if ms is None else Row(f"{what}, p50", ms, "ms"))
    for kind in _KINDS:
        found = woken[kind.name]
        p50_ms, p99_ms = median(found.took_ms), _percentile(found.took_ms, 0.99)
        what, bar = f"woken, {kind.name} zygote", at_least(kind.times_sooner)
        rows += [
            Row(f"{what}: p50 of {len(found.took_ms)}", p50_ms, "ms"),
            Row(f"{what}: p99", p99_ms, "ms"),
            Row(f"{what}: p99 over p50", p99_ms / p50_ms, "times", at_most(_MOST_P99_OVER_P50)),
            Row(f"{what}: plain start over it", plain_ms / p50_ms, "times", bar),
            Row(f"{what}: fastest peer over it", min(known_ms) / p50_ms if known_ms else None, "times", bar),
            Row(
                f"{what}: Private_Dirty of each of {_NUM_INSTANCES} instances, the most",
                found.private_dirty_mib,
                "MiB",
                at_most(kind.private_dirty_mib),
            ),
        ]
    return rows


def _percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that at least this share of all does not exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]
