"""What the activator costs on the way to an instance: time against the instance itself, CPU against bare starlette.

The same callers go through the platform, to the instance's own socket, and to a bare starlette endpoint, in turns.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.flood import flood
from benchmarks.rows import Row, at_most
from benchmarks.served import Served, peer

_BODY = {"message": "hello", "numbers": [1, 2, 3]}
_NUM_CALLERS = (1, 32)
_WARM_S = 0.5
_NUMBER = re.compile("[0-9a-f]+")
_MOST_ADDED_US = 80.0
_MOST_OF_BARE = 0.6


@dataclass(frozen=True)
class Turn:
    """One turn of each: medians of latency, and CPU a request of the platform's own process and of starlette's."""

    through_us: float
    direct_us: float
    cpu_us: float
    bare_cpu_us: float


async def measure(bench: Bench) -> list[Row]:
    num_turns, turn_s = bench.choose((9, 2.0), (3, 1.0))
    async with running_box(bench.home, "handlers.echo") as box, peer("bare", bench.home, _BODY) as bare:
        through = Served(box.server, box.url_of("echo"))
        await flood(through, _BODY, 1, _WARM_S)
        direct = Served(box.server, "http://instance/", _socket_of_instance(bench.home))
        rows: list[Row] = []
        for num_callers in _NUM_CALLERS:
            for served in (through, direct, bare):
                await flood(served, _BODY, num_callers, _WARM_S)
            turns = [await _turn(box, (through, direct, bare), num_callers, turn_s) for _ in range(num_turns)]
            rows += _rows(num_callers, turns)
    return rows


def _socket_of_instance(home: Path) -> Path:
    """Return the socket of the instance that started last: it is called by its number, in hexadecimal digits."""
    sockets = [path for path in home.glob("faas-*/*") if path.is_socket() and _NUMBER.fullmatch(path.name)]
    return max(sockets, key=lambda path: int(path.name, 16))


async def _turn(box: Box, served: tuple[Served, Served, Served], num_callers: int, turn_s: float) -> Turn:
    through, direct, bare = served
    activator = (box.server.process.pid,)  # not its instance, and not the zygote, which sleeps
    before_s = usage.cpu_s(activator)
    found = await flood(through, _BODY, num_callers, turn_s)
    cpu_us = (usage.cpu_s(activator) - before_s) * 1e6 / found.num_answers
    itself = await flood(direct, _BODY, num_callers, turn_s)
    starlette = await flood(bare, _BODY, num_callers, turn_s)
    return Turn(found.p50_us, itself.p50_us, cpu_us, starlette.cpu_us_each)


def _rows(num_callers: int, turns: list[Turn]) -> list[Row]:
    what = f"activator, {num_callers} caller{'s' if num_callers > 1 else ''}"
    of_bare = median(turn.cpu_us / turn.bare_cpu_us for turn in turns)
    rows = [
        Row(f"{what}: CPU a request", median(turn.cpu_us for turn in turns), "us"),
        Row(f"{what}: CPU a request of bare starlette", median(turn.bare_cpu_us for turn in turns), "us"),
        Row(f"{what}: CPU over bare starlette's", of_bare, "", at_most(_MOST_OF_BARE)),
    ]
    if num_callers > 1:  # they wait for one another then, and the time is that of a queue
        return rows
    added_us = median(turn.through_us - turn.direct_us for turn in turns)
    return [
        *rows,
        Row(f"{what}: p50", median(turn.through_us for turn in turns), "us"),
        Row(f"{what}: p50 of the instance directly", median(turn.direct_us for turn in turns), "us"),
        Row(f"{what}: added at p50", added_us, "us", at_most(_MOST_ADDED_US)),
    ]
