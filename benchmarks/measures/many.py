"""Two hundred functions on one box, woken in random order: how long that takes, what all of them hold, what is left."""

import random
import time
from statistics import median

from benchmarks import copies, usage
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.functions.zoo import KINDS
from benchmarks.holdings import Holdings, calm
from benchmarks.load import UnansweredError
from benchmarks.measures.cold_start import Start, woken
from benchmarks.rows import Row, at_least, at_most
from faas.platform.memory import read_default_budget

_SENTENCE = "a sentence to warm up with"
_APP = """from benchmarks.functions.zoo import Model
from faas import inference_function


@inference_function(name="{kind}", warmup=["{sentence}"])
class Function(Model):
    kind = "{kind}"
"""
_SLOWEST_S = 1.0
_READY_WITHIN_S = 900.0
_QUICK_KINDS = ("encoder-2", "print-turned", "digits-linear", "dense-512")
_SEED = 7


async def measure(bench: Bench) -> list[Row]:
    kinds = bench.choose(tuple(KINDS), _QUICK_KINDS)
    num_each, num_rounds = bench.choose((10, 5), (5, 3))
    names = [name for kind in kinds for name in await _make_ready(bench, kind, num_each)]
    targets = [copies.target(bench.home, name) for name in names]
    began_at = time.monotonic()
    async with running_box(bench.home, *targets, within_s=_READY_WITHIN_S, variables=copies.IMPORTABLE) as box:
        ready_s = time.monotonic() - began_at
        dice, starts, most_bytes = random.Random(_SEED), list[tuple[str, Start]](), list[int]()
        await _wake_all(box, dice.sample(names, len(names)))
        before = await _at_zero(box, names)
        for _ in range(num_rounds):
            starts += await _wake_all(box, dice.sample(names, len(names)))
            most_bytes.append(usage.memory(box.server.pids).pss_bytes)
        after = await _at_zero(box, names)
    took_ms = sorted(start.total_ms for _, start in starts)
    slowest_name, slowest = max(starts, key=lambda found: found[1].total_ms)
    return [
        Row("functions", len(names)),
        Row("functions: different ones", len(kinds), "", at_least(bench.choose(20, 1))),
        Row("from `faas up` until all have a zygote", ready_s, "s"),
        Row(f"woken in random order, p50 of {len(took_ms):,}", median(took_ms), "ms"),
        Row("woken in random order, p99", took_ms[len(took_ms) * 99 // 100], "ms"),
        Row("woken in random order, slowest", took_ms[-1] / 1e3, "s", at_most(_SLOWEST_S)),
        *(Row(f"the slowest, {slowest_name}: {phase}", ms, "ms") for phase, ms in slowest.phases_ms.items()),
        Row(f"the slowest, {slowest_name}: the rest", slowest.rest_ms, "ms"),
        Row("all at zero: PSS", after.memory.pss_bytes / 2**30, "GiB"),
        Row("while they are woken: PSS, the most", max(most_bytes) / 2**30, "GiB"),
        Row("while they are woken: share of the budget", max(most_bytes) / read_default_budget(), "", at_most(1.0)),
        *after.growth_since(before, f"{len(starts):,} wake-ups"),
    ]


async def _make_ready(bench: Bench, kind: str, num: int) -> list[str]:
    """Have a function of a kind, and copies of it; return their names."""
    made = await copies.first(bench.home, kind, _APP.format(kind=kind, sentence=_SENTENCE))
    return [kind, *(copies.copy(bench.home, made, f"{kind}-copy-{number}").name for number in range(1, num))]


async def _wake_all(box: Box, names: list[str]) -> list[tuple[str, Start]]:
    """Wake one function after another, each from zero, and return its name and its start.

    Raises UnansweredError with what the platform says of the function that was not woken.
    """
    found = []
    for name in names:
        await box.scale(name, 0)
        async with box.caller(name, _SENTENCE) as caller:
            try:
                sample = await caller.wake()
            except UnansweredError as error:
                raise UnansweredError(f"{name}: {error}; {await box.failure(name)}") from None
        found.append((name, woken(sample)))
    return found


async def _at_zero(box: Box, names: list[str]) -> Holdings:
    for name in names:
        await box.scale(name, 0)
    return await calm(box)
