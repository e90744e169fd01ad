"""What the server itself costs: CPU of an echo, against a bare starlette endpoint and against LitServe."""

from statistics import median

from benchmarks.area import Bench
from benchmarks.flood import Flood, flood
from benchmarks.rows import Row, at_most
from benchmarks.served import faas_serve, peer, together

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
            await flood(served, _BODY, _NUM_CALLERS, 0.5)
        rounds = [
            [await flood(served, _BODY, _NUM_CALLERS, round_s) for served in (ours, bare, lit)]
            for _ in range(num_rounds)
        ]
    return _rows(rounds)


def _rows(rounds: list[list[Flood]]) -> list[Row]:
    ours, bare, lit = ([one.cpu_us_each for one in side] for side in zip(*rounds, strict=True))
    of_bare = median(a / b for a, b in zip(ours, bare, strict=True))
    of_lit = median(a / b for a, b in zip(ours, lit, strict=True))
    return [
        Row("echo: CPU a request", median(ours), "us"),
        Row("echo: CPU a request, bare starlette", median(bare), "us"),
        Row("echo: CPU a request, LitServe", median(lit), "us"),
        Row("echo: CPU over bare starlette's", of_bare, "", at_most(_MOST_OF_BARE)),
        Row("echo: CPU over LitServe's", of_lit, "", at_most(_MOST_OF_LITSERVE)),
    ]
