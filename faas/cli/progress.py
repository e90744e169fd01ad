"""Steps of long work: what is under way turns on a terminal, and is a line elsewhere. All of it on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from faas.cli.listing import size
from faas.clock import Clock, monotonic

Step = Callable[[str], None]
Bytes = Callable[[int, int], None]
"""Takes the bytes that are done, and all that there are."""

_SAID_AT = 0.25
"""Where a bar cannot be drawn, a line says each further part of this size that is done."""


@contextlib.contextmanager
def steps(clock: Clock = monotonic) -> Iterator[Step]:
    """Give a function that says what is being done now; what was done before is then over."""
    if not sys.stderr.isatty():
        yield _say
        return
    from rich.console import Console  # rich is for terminals alone
    from rich.status import Status
    from rich.text import Text

    from faas.slow_steps import Ongoing

    console = Console(stderr=True)
    with Status("starting", console=console) as status:
        begun: list[tuple[str, float]] = []

        def step(text: str) -> None:
            if not isinstance(text, Ongoing):
                if begun:
                    console.print(_done(*begun.pop(), clock()), markup=False, highlight=False)
                begun.append((text, clock()))
            status.update(Text(text))

        yield step
        if begun:
            console.print(_done(*begun.pop(), clock()), markup=False, highlight=False)


@contextlib.contextmanager
def of_time(text: str, seconds: float) -> Iterator[None]:
    """Show how much of a known time has passed, on a terminal; say what is done, elsewhere."""
    if not sys.stderr.isatty():
        _say(f"{text} for {seconds:g} s")
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TextColumn
    from rich.progress_bar import ProgressBar

    class Elapsed(BarColumn):
        def render(self, task: Task) -> ProgressBar:
            task.completed = min(task.elapsed or 0.0, seconds)
            return super().render(task)

    columns = (TextColumn("{task.description}"), Elapsed(), TextColumn("{task.completed:.0f} of {task.total:g} s"))
    # Twice a second: what is shown shall cost the measurement nothing.
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True) as bar:
        bar.add_task(text, total=seconds)
        yield


@contextlib.contextmanager
def of_bytes(text: str) -> Iterator[Bytes]:
    """Give a function that shows how many bytes are done: a bar with speed on a terminal, a few lines elsewhere."""
    if not sys.stderr.isatty():
        _say(text)
        yield _in_quarters(text)
        return
    from rich.console import Console  # rich is for terminals alone
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _in_quarters(text: str) -> Bytes:
    said = 0

    def show(done: int, total: int) -> None:
        nonlocal said
        parts = int(done / total / _SAID_AT) if total else 0
        if parts > said:
            said = parts
            _say(f"{text}: {size(done)} of {size(total)}")

    return show


def _done(text: str, begun: float, ended: float) -> str:
    return f"{ended - begun:6.1f} s  {text}"


def _say(text: str) -> None:
    click.echo(text, err=True)
