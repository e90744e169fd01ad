"""One area of benchmarks as a command: runs its measures one after another, prints their rows, and holds them to bars.

python -m benchmarks.AREA [--json FILE] [--check] [--quick] [--only NAME ...]
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from rich.console import Console

from benchmarks import report
from benchmarks.rows import Row, short_of, verdict

T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """What a measure is given.

    `home` is a folder of the run's own, for FAAS_HOME and for logs; what is made there once, such as a snapshot, the
    measures share. `quick` asks for less of everything.
    """

    home: Path
    quick: bool = False

    def choose(self, full: T, quick: T) -> T:
        """Return what a full run, or a quick one, takes."""
        return quick if self.quick else full


Measure = Callable[[Bench], Awaitable[list[Row]]]


def main(area: str, measures: Mapping[str, Measure], arguments: Sequence[str] | None = None) -> int:
    """Run an area's measures as the command line says, and return its exit status."""
    options = _parser(area, measures).parse_args(arguments)
    if warning := report.warning():
        print(f"warning: {warning}", file=sys.stderr)
    chosen = {name: measure for name, measure in measures.items() if name in (options.only or measures)}
    with own_home() as home:
        rows = run_to_the_end(_measure_all(chosen, Bench(home, options.quick)))
    if options.json is not None:
        options.json.write_text(json.dumps(report.document(area, rows, quick=options.quick), indent=2) + "\n")
    console = Console()
    console.print(report.table(f"{area}, quick" if options.quick else area, rows))
    console.print(verdict(rows), markup=False, highlight=False, soft_wrap=True)
    return 1 if options.check and short_of(rows) else 0


def _parser(area: str, measures: Mapping[str, Measure]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{area}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows with machine, versions and date")
    parser.add_argument("--check", action="store_true", help="end with status 1 when a bar does not hold")
    parser.add_argument("--quick", action="store_true", help="less of everything: minutes, and noisier figures")
    parser.add_argument("--only", nargs="+", choices=list(measures), metavar="NAME", help=", ".join(measures))
    return parser


async def _measure_all(measures: Mapping[str, Measure], bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for name, measure in measures.items():
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        began_at = time.monotonic()
        try:
            rows += await measure(bench)
        except Exception:  # one measure that fails takes nothing from the others, and fails the check
            traceback.print_exc()
            rows.append(Row(name, None))
        print(f"{time.monotonic() - began_at:.0f} s", file=sys.stderr, flush=True)
    return rows


@contextmanager
def own_home() -> Iterator[Path]:
    """Yield a new folder with a short path, as sockets need it, and remove it with all that is in it."""
    home = Path(tempfile.mkdtemp(prefix="faas-bench-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run_to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; SIGINT, SIGTERM and SIGHUP cancel it once, and what it then cleans up is not interrupted again.

    Raises SystemExit with 128 and the signal's number when it was cancelled so.
    """
    stopped_by: list[int] = []

    async def supervised() -> T:
        working = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            if not stopped_by:
                stopped_by.append(number)
                working.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await working

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(supervised())
    except asyncio.CancelledError:
        raise SystemExit(128 + stopped_by[0] if stopped_by else 1) from None
