"""The main job in about two minutes: what it measures is what `benchmarks.main_job` measures, less often.

A snapshot is made and the platform comes up; a handler is started the plain way and woken from zero; one and four
instances are weighed; they go back to zero by themselves; the same handler is loaded with and without batching.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import report, usage
from benchmarks.area import Bench, own_home, run_to_the_end
from benchmarks.box import Box, running_box
from benchmarks.load import UnansweredError
from benchmarks.measures import batching, cold_start, memory
from benchmarks.processes import ServerError, script
from benchmarks.rows import shown

_TARGET, _NAME = "benchmarks.functions.brief:Sentences", "sentences"
_WIDEST = 96
_NUM_ROUNDS, _NUM_WAKES_EACH = 2, 6
_NUM_LOADS, _LOAD_S = 3, 1.5
_TO_ZERO_WITHIN_S = 60.0
_PLAIN_PHASES = {
    "interpreter": "start of the interpreter",
    "imports": "import torch, transformers",
    "setup": "setup(): tokenizer, model",
    "answer": "first answer",
}
_WOKEN_PHASES = {
    "fork": "a forked worker takes over",
    "import": "its code is found",
    "thaw": "the snapshot is thawed",
    "setup": "setup()",
    "warmup": "warm-up",
    "held besides": "until it is known to be ready",
    "queue": "in the queue",
    "batch": "in its batch",
    "exec": "first answer",
    "the rest": "between these",
}


def main() -> int:
    """Run the demonstration, and say whether anything is left of it."""
    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    began_at = time.monotonic()
    status = 0
    with own_home() as home:
        try:
            run_to_the_end(_show(console, home))
        except (ServerError, UnansweredError) as error:
            console.print(f"\nerror: {error}", style="red", markup=False)
            status = 1
        finally:
            num_left = len(usage.with_variable("FAAS_HOME", str(home)))
            took_s = time.monotonic() - began_at
            console.print(f"\nEnded after {took_s:.0f} s; {num_left or 'no'} processes are left running.")
    return 1 if num_left else status


async def _show(console: Console, home: Path) -> None:
    facts = report.machine()
    console.print(f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_mib'] / 1024:.0f} GiB of memory")
    console.print("The model is all-MiniLM-L6-v2: a sentence in, 384 numbers out.\n")
    async with AsyncExitStack() as owned:
        with _step(console, "making its snapshot, once, and bringing the platform up (faas up)"):
            box = await owned.enter_async_context(running_box(home, _TARGET))
        await _show_starts(console, box)
        await _show_memory(console, box)
        await _show_way_to_zero(console, box, home)
        with _step(console, "taking the platform down"):
            await owned.aclose()
    await _show_batching(console, home)


@contextmanager
def _step(console: Console, text: str) -> Iterator[None]:
    began_at = time.monotonic()
    console.print(f"[dim]{text} ...[/dim]", end=" ")
    try:
        yield
    finally:
        console.print(f"[dim]{time.monotonic() - began_at:.0f} s[/dim]")


async def _show_starts(console: Console, box: Box) -> None:
    with _step(console, "starting it the plain way, and waking it from zero, in turns"):
        found = await cold_start.compare(box, _NAME, _NUM_ROUNDS, _NUM_WAKES_EACH)
    table = _table("From nothing to the first answer (medians)")
    for heading in ("the plain way", "woken from zero over HTTP"):
        table.add_column(heading)
        table.add_column("ms", justify="right", min_width=6)
    plain, woken = cold_start.median_phases_ms(found.plain), cold_start.median_phases_ms(found.woken)
    left = [(_PLAIN_PHASES[name], shown(plain[name])) for name in _PLAIN_PHASES]
    right = [(text, shown(woken[name])) for name, text in _WOKEN_PHASES.items() if name in woken]
    for cells in zip_longest(left, right, fillvalue=("", "")):
        table.add_row(*cells[0], *cells[1])
    plain_ms, woken_ms = cold_start.median_ms(found.plain), cold_start.median_ms(found.woken)
    table.add_section()
    table.add_row("in all", shown(plain_ms), "in all, as the client sees it", shown(woken_ms), style="bold")
    _print(console, table)
    torch_ms = median(found.import_torch_ms)
    console.print(
        f"{plain_ms / woken_ms:.0f} times sooner than the plain way, "
        f"{torch_ms / woken_ms:.0f} times sooner than `import torch` alone ({shown(torch_ms)} ms).\n"
    )


async def _show_memory(console: Console, box: Box) -> None:
    with _step(console, "weighing one instance, then four (faas scale)"):
        found = [await memory.look(box, _NAME, num) for num in (1, 4)]
    table = _table("Memory in MiB, after an answer of each instance")
    table.add_column("instances")
    for heading in ("PSS in sum", "private dirty, each", "platform, zygote"):
        table.add_column(heading, justify="right")
    for held in found:
        platform_mib = held.platform.pss_bytes / memory.MIB
        table.add_row(
            str(len(held.instances)), shown(held.pss_mib), shown(held.most_private_dirty_mib), shown(platform_mib)
        )
    _print(console, table)


async def _show_way_to_zero(console: Console, box: Box, home: Path) -> None:
    console.print("[dim]nobody calls it any more; its scale-down window is 6 s[/dim]")
    began_at, num = time.monotonic(), None
    while num != 0 and time.monotonic() - began_at < _TO_ZERO_WITHIN_S:
        now = len(await box.instances(_NAME))
        if now != num:
            console.print(f"  after {time.monotonic() - began_at:4.1f} s: {now} instance{'' if now == 1 else 's'}")
            num = now
        await asyncio.sleep(0.1)
    console.print(f"$ faas ps\n{await _faas(home, 'ps')}\n", markup=False)


async def _faas(home: Path, *arguments: str) -> str:
    async with script("-m", "faas.cli.main", *arguments, FAAS_HOME=str(home)) as process:
        output, _ = await process.communicate()
    return output.decode().rstrip()


async def _show_batching(console: Console, home: Path) -> None:
    with _step(console, "serving it with batching and without (faas serve), 1, 8 and 32 callers"):
        found = await batching.compare(Bench(home), _NUM_LOADS, _LOAD_S)
    table = _table("Sentences a second, and the share of the CPU that is the model's")
    table.add_column("callers")
    for heading in ("one by one", "batched", "gain", "mean batch", "the model's CPU"):
        table.add_column(heading, justify="right")
    for num_callers, comparison in found.items():
        batched, unbatched = comparison.batched, comparison.unbatched
        per_s, alone_per_s = median(batched.per_s), median(unbatched.per_s)
        table.add_row(
            *(str(num_callers), shown(alone_per_s), shown(per_s), f"{per_s / alone_per_s:.2f} times"),
            *(f"{median(batched.batch_size):.1f}", f"{median(batched.model_share):.0%}"),
        )
    _print(console, table)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", header_style="")


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)
    console.print()


if __name__ == "__main__":
    sys.exit(main())
