"""What the server itself costs: CPU of an echo, against a bare starlette endpoint and against LitServe."""

from statistics import median

import loadgen
from benchmarks.area import Bench
from benchmarks.load import Load, closed
from benchmarks.rows import Row, at_most
from benchmarks.served import Served, faas_serve, peer, together

_NUM_CALLERS = 32
_BODY = {"message": "hello", "numbers": [1, 2, 3]}
_MOST_OF_BARE = 1.15
_MOST_OF_LITSERVE = 0.1


async def measure(bench: Bench) -> list[Row]:
    num_rounds, round_s = bench.choose((9, 4.0), (3, 1.5))
    async with together(
        faas_serve("handlers.echo", bench.home, _BODY),
        peer("bare", bench.home, _BODY),
        peer("lit_echo", bench.home, _BODY),
    ) as (ours, bare, lit):
        for served in (ours, bare, lit):
            await _load(served, 0.5)
        rounds = [
            (await _load(ours, round_s), await _load(bare, round_s), await _load(lit, round_s))
            for _ in range(num_rounds)
        ]
    return _rows(rounds)


async def _load(served: Served, round_s: float) -> Load:
    return await closed(served.server, loadgen.Workload.json(served.url, [_BODY]), _NUM_CALLERS, round_s)


def _rows(rounds: list[tuple[Load, Load, Load]]) -> list[Row]:
    ours, bare, lit = ([load.cpu_us_each for load in loads] for loads in zip(*rounds, strict=True))
    of_bare = median(a / b for a, b in zip(ours, bare, strict=True))
    of_lit = median(a / b for a, b in zip(ours, lit, strict=True))
    return [
        Row("echo: CPU a request", median(ours), "us"),
        Row("echo: CPU a request, bare starlette", median(bare), "us"),
        Row("echo: CPU a request, LitServe", median(lit), "us"),
        Row("echo: CPU over bare starlette's", of_bare, "", at_most(_MOST_OF_BARE)),
        Row("echo: CPU over LitServe's", of_lit, "", at_most(_MOST_OF_LITSERVE)),
    ]
