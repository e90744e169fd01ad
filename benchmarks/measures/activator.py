"""What the activator costs on the way to an instance: time against the instance itself, CPU against bare starlette.

The same callers go through the platform, to an instance that they reach themselves (`faas serve`), and to a bare
starlette endpoint, in turns, all over TCP. What the way through the platform adds for a lone caller holds two more
wake-ups of a process that waits.
"""

from dataclasses import dataclass
from statistics import median

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.flood import flood
from benchmarks.rows import Bar, Row, at_most
from benchmarks.served import Served, faas_serve, peer, together

_ECHO = "handlers.echo"
_BODY = {"message": "hello", "numbers": [1, 2, 3]}
_MANY_CALLERS = 32
_WARM_S = 0.5
_MOST_ADDED_US = 80.0
_MOST_OF_BARE = 0.6


Ways = tuple[Served, Served, Served]
"""Through the activator, to the instance itself, to bare starlette."""


@dataclass(frozen=True)
class Turn:
    """One turn of each: medians of latency, and CPU a request of the platform's own process and of starlette's."""

    through_us: float
    direct_us: float
    cpu_us: float
    bare_cpu_us: float


async def measure(bench: Bench) -> list[Row]:
    async with (
        running_box(bench.home, _ECHO) as box,
        together(faas_serve(_ECHO, bench.home, _BODY), peer("bare", bench.home, _BODY)) as (direct, bare),
    ):
        ways = Served(box.server, box.url_of("echo")), direct, bare
        lone = await _turns(bench, box, ways, 1)
        many = await _turns(bench, box, ways, _MANY_CALLERS)
    return [
        *_cpu_rows("activator, 1 caller", lone, at_most(_MOST_OF_BARE)),
        *_added_rows("activator, 1 caller", lone, at_most(_MOST_ADDED_US)),
        *_cpu_rows(f"activator, {_MANY_CALLERS} callers", many, at_most(_MOST_OF_BARE)),
    ]


async def _turns(bench: Bench, box: Box, ways: Ways, num_callers: int) -> list[Turn]:
    num_turns, turn_s = bench.choose((12, 1.5), (3, 1.0))
    for served in ways:
        await flood(served, _BODY, num_callers, _WARM_S)
    return [await _turn(box, ways, num_callers, turn_s) for _ in range(num_turns)]


async def _turn(box: Box, ways: Ways, num_callers: int, turn_s: float) -> Turn:
    through, direct, bare = ways
    activator = (box.server.process.pid,)  # not its instance, and not the zygote, which sleeps
    before_s = usage.cpu_s(activator)
    found = await flood(through, _BODY, num_callers, turn_s)
    cpu_us = (usage.cpu_s(activator) - before_s) * 1e6 / found.num_answers
    itself = await flood(direct, _BODY, num_callers, turn_s)
    starlette = await flood(bare, _BODY, num_callers, turn_s)
    return Turn(found.p50_us, itself.p50_us, cpu_us, starlette.cpu_us_each)


def _cpu_rows(what: str, turns: list[Turn], bar: Bar) -> list[Row]:
    return [
        Row(f"{what}: CPU a request", median(turn.cpu_us for turn in turns), "us"),
        Row(f"{what}: CPU a request of bare starlette", median(turn.bare_cpu_us for turn in turns), "us"),
        Row(f"{what}: CPU over bare starlette's", median(turn.cpu_us / turn.bare_cpu_us for turn in turns), "", bar),
    ]


def _added_rows(what: str, turns: list[Turn], bar: Bar) -> list[Row]:
    """Return what a lone caller waits; of many, each waits for the others, and the time is that of a queue."""
    return [
        Row(f"{what}: p50", median(turn.through_us for turn in turns), "us"),
        Row(f"{what}: p50 of the instance directly", median(turn.direct_us for turn in turns), "us"),
        Row(f"{what}: added at p50", median(turn.through_us - turn.direct_us for turn in turns), "us", bar),
    ]
