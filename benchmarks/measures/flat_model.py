"""A model whose batch takes 10 ms whatever its size: what is lost is lost by the batcher alone."""

from statistics import median

import loadgen
from benchmarks.area import Bench
from benchmarks.load import Load, closed
from benchmarks.rows import Row, at_least
from benchmarks.served import Served, faas_serve, peer, together

_LEAST_OF_WINDOW = 0.95


async def measure(bench: Bench) -> list[Row]:
    num_rounds, round_s = bench.choose((7, 4.0), (2, 1.5))
    rows: list[Row] = []
    async with together(
        faas_serve("benchmarks.functions.flat", bench.home, 1), peer("window_batcher", bench.home, 1)
    ) as (ours, window):
        for num_callers in (8, 32):
            pairs = [
                (await _load(ours, num_callers, round_s), await _load(window, num_callers, round_s))
                for _ in range(num_rounds)
            ]
            rows += _rows(num_callers, pairs)
    return rows


async def _load(served: Served, num_callers: int, round_s: float) -> Load:
    return await closed(served.server, loadgen.Workload.json(served.url, range(100)), num_callers, round_s)


def _rows(num_callers: int, pairs: list[tuple[Load, Load]]) -> list[Row]:
    at = f"flat model, {num_callers} callers"
    ratio = median(ours.per_s / window.per_s for ours, window in pairs)
    return [
        Row(f"{at}: items a second", median(ours.per_s for ours, _ in pairs), "1/s"),
        Row(f"{at}: items a second, window batcher", median(window.per_s for _, window in pairs), "1/s"),
        Row(f"{at}: mean batch", median(ours.report.mean_batch_size or 0.0 for ours, _ in pairs), "items"),
        Row(f"{at}: rate over the window batcher's", ratio, "", at_least(_LEAST_OF_WINDOW)),
    ]
