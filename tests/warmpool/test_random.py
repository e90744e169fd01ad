"""Random numbers of siblings: what the system seeded differs in each, what was seeded on purpose is the same."""

import asyncio

import pytest

from warmpool.client import Zygote
from warmpool.environment import Preload

pytestmark = pytest.mark.anyio

PRELOAD = Preload(entry="generators:preload")


async def drawn_by_five(zygote, run):
    forked = [run(zygote.fork, "generators:draw") for _ in range(3)]
    adopted = [run((await zygote.park()).adopt, "generators:draw") for _ in range(2)]
    return [done.answer for done in await asyncio.gather(*forked, *adopted)]


@pytest.mark.parametrize("hot", [False, True])
async def test_generators_without_a_seed_draw_differently_in_each_worker(start, environment, run, hot):
    zygote = base = await start("entries") if hot else await start("entries", "generators")
    if hot:
        zygote = await Zygote.heir(base, environment("entries", preload=PRELOAD))
    try:
        unseeded, seeded = zip(*await drawn_by_five(zygote, run), strict=True)
    finally:
        if hot:
            await zygote.stop()
    for name in unseeded[0]:
        assert len({draws[name] for draws in unseeded}) == 5, name
    for name in seeded[0]:
        assert len({draws[name] for draws in seeded}) == 1, name
