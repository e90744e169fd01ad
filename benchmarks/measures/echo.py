"""What the server itself costs: CPU of an echo, against a bare starlette endpoint and the servers of others.

The main job asks for the echo alone, beside starlette's and LitServe's; the engine also for one behind the batcher, and
for more of the others.
"""

import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.area import Bench
from benchmarks.flood import Flood, flood
from benchmarks.peer_environments import REQUIREMENTS, NotInstalledError, python_of
from benchmarks.processes import ServerError
from benchmarks.rows import Row, at_most
from benchmarks.served import Served, faas_serve, peer, together

_NUM_CALLERS = 32
_BODY = {"message": "hello", "numbers": [1, 2, 3]}
_TENSOR = {"inputs": [{"name": "hello", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]}
_STARTS_WITHIN_S = 60.0

_BARE, _OURS, _BATCHED, _THREADED = "bare starlette", "ours", "ours, batches of one", "ours, batches of one on a thread"
_OWN = {
    _OURS: "handlers.echo",
    _BATCHED: "benchmarks.functions.echoes:batched_echo",
    _THREADED: "benchmarks.functions.echoes:threaded_echo",
}


@dataclass(frozen=True)
class Other:
    """An echo of others, `benchmarks.peers.MODULE`; ours may take `most` of its CPU."""

    module: str
    path: str
    body: Any
    most: float


_OTHERS = {
    "litserve": Other("lit_echo", "", _BODY, 1 / 12),
    "mlserver": Other("ml_echo", "v2/models/echo/infer", _TENSOR, 1 / 6),
    "kserve": Other("kserve_echo", "v1/models/echo:predict", _BODY, 1 / 5),
}

Rounds = Mapping[str, list[Flood]]


async def measure(bench: Bench) -> list[Row]:
    return await _measure(bench, own=list(_OWN), others=list(_OTHERS))


async def measure_alone(bench: Bench) -> list[Row]:
    return await _measure(bench, own=[_OURS], others=["litserve"])


async def _measure(bench: Bench, *, own: list[str], others: list[str]) -> list[Row]:
    async with AsyncExitStack() as owned:
        serving = [faas_serve(_OWN[name], bench.home, _BODY) for name in own]
        running = await owned.enter_async_context(together(peer("bare", bench.home, _BODY), *serving))
        servers = dict(zip((_BARE, *own), running, strict=True))
        for name in others:
            other = await _started(owned, bench, name)
            if other is not None:
                servers[name] = other
        rounds = await _rounds(servers, *bench.choose((7, 2.0), (3, 1.5)))
    return _rows(rounds, others)


async def _started(owned: AsyncExitStack, bench: Bench, name: str) -> Served | None:
    """Start the echo of others; None, and a word about it, where it cannot be had."""
    other = _OTHERS[name]
    try:
        python = await python_of(name)
        serving = peer(other.module, bench.home, other.body, path=other.path, python=python, within_s=_STARTS_WITHIN_S)
        return await owned.enter_async_context(serving)
    except (NotInstalledError, ServerError) as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


async def _rounds(servers: Mapping[str, Served], num_rounds: int, round_s: float) -> Rounds:
    found: dict[str, list[Flood]] = {name: [] for name in servers}
    for number in range(num_rounds + 1):
        for name, served in servers.items():
            body = _OTHERS[name].body if name in _OTHERS else _BODY
            one = await flood(served, body, _NUM_CALLERS, round_s if number else 0.5)
            if number:  # the first one warms up
                found[name].append(one)
    return found


def _rows(rounds: Rounds, others: list[str]) -> list[Row]:
    def ratio(one: str, other: str) -> float:
        pairs = zip(rounds[one], rounds[other], strict=True)
        return median(a.cpu_us_each / b.cpu_us_each for a, b in pairs)

    rows = [
        Row(f"echo: CPU a request, {name}", median(one.cpu_us_each for one in of), "us") for name, of in rounds.items()
    ]
    rows.append(Row("echo: CPU over bare starlette's", ratio(_OURS, _BARE), "", at_most(1.0)))
    if _BATCHED in rounds:
        rows.append(Row("echo: CPU over bare starlette's, batches of one", ratio(_BATCHED, _BARE), "", at_most(1.4)))
        rows.append(Row("echo: CPU over bare starlette's, batches of one on a thread", ratio(_THREADED, _BARE)))
    for name in others:
        what = f"echo: CPU over that of {REQUIREMENTS[name][0]}"
        if name in rounds:
            rows.append(Row(what, ratio(_OURS, name), "", at_most(round(_OTHERS[name].most, 3))))
        else:
            rows.append(Row(f"{what}: could not be had", 0.0))
    return rows
