"""Many wake-ups and returns to zero: what the platform holds at zero must be what it held before."""

from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.holdings import calm
from benchmarks.rows import Row

_BODY = {"message": "hello"}


async def measure(bench: Bench) -> list[Row]:
    num_warm, num_wakes, num_windows = bench.choose((50, 1000, 20), (20, 100, 2))
    async with running_box(bench.home, "handlers.echo", "benchmarks.functions.brief:brief") as box:
        await _by_command(box, num_warm)
        await _by_window(box, 1)
        before = await calm(box)
        await _by_command(box, num_wakes)
        after = await calm(box)
        await _by_window(box, num_windows)
        in_the_end = await calm(box)
    return [
        *after.growth_since(before, f"{num_wakes:,} wake-ups by command"),
        # Against the beginning, too: one connection more or less is open at any moment.
        *in_the_end.growth_since(before, f"with {num_windows} wake-ups by window"),
        Row("platform with zygotes at zero: PSS", in_the_end.memory.pss_bytes / 2**20, "MiB"),
    ]


async def _by_command(box: Box, num: int) -> None:
    """Wake up and scale to zero by command."""
    async with box.caller("echo", _BODY) as caller:
        for _ in range(num):
            await caller.wake()
            await box.scale("echo", 0)


async def _by_window(box: Box, num: int) -> None:
    """Wake up, and wait until the function is at zero by itself."""
    async with box.caller("brief", _BODY) as caller:
        for _ in range(num):
            await caller.wake()
            await box.until_instances("brief", 0)
