"""`faas bench`: load on a URL, and what it showed."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import click
import rich.console

from faas.cli import body, header, listing, progress
from faas.cli.failure import Failure
from loadgen import ClosedLoop, OpenLoop, Report, Workload, descriptors, run, stop_on_interrupt
from loadgen.arrivals import Arrivals
from loadgen.render import render

_PLAIN_WIDTH: Final = 120  # columns, where no terminal says
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h)")
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _duration(unit: str) -> Callable[[str], float]:
    """Return a reader of durations such as `100ms`, `30s` or `2m`, in seconds; a bare number counts in `unit`."""

    def read(text: str) -> float:
        found = _DURATION.fullmatch(text.strip()) or _DURATION.fullmatch(f"{text.strip()}{unit}")
        if found is None or float(found[1]) == 0:
            raise click.BadParameter(f"{text!r} is no duration: write 100ms, 30s or 2m")
        return float(found[1]) * _SECONDS[found[2]]

    return read


@click.command()
@click.argument("url")
@body.options
@click.option("--rate", type=float, metavar="PER_SECOND", help="Send at this rate, whatever is answered.")
@click.option(
    "--arrivals",
    type=click.Choice(get_args(Arrivals)),
    default="poisson",
    show_default=True,
    help="How requests at a rate are spread.",
)
@click.option(
    "--duration", type=_duration("s"), default="10s", show_default=True, metavar="TIME", help="For how long to send."
)
@click.option(
    "--warmup",
    type=_duration("s"),
    metavar="TIME",
    help="Send the same load before, for this time, and leave it out of the report.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Callers that each wait for an answer and call again; with --rate, the most that are in flight.",
)
@click.option(
    "--slo", type=_duration("ms"), metavar="TIME", help="Count the answers that came within this time, such as 100ms."
)
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True, help="Share the load among them."
)
@click.option(
    "--timeout",
    type=_duration("s"),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="For how long to wait for one.",
)
@header.option
@click.option("--stream", is_flag=True, help="Ask for server-sent events: the report says when the first came.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed, the same load.")
@listing.option
def command(
    url: str,
    data: str | None,
    file: str | None,
    sent: tuple[str, ...],
    stream: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Put load on URL and print latencies, outcomes and rates.

    With --rate the load is open: latency counts from when a request was due, also while the server stalls. Without, it
    is --concurrency callers (1) in a closed loop. Without --data or --file the requests are GET; the lines of
    --data @PATH.jsonl take turns.
    """
    named = header.read(sent) | ({"accept": "text/event-stream"} if stream else {})
    workload = _workload(url, data, file, named)
    report = asyncio.run(_bench(workload, **options))
    if as_json:
        listing.write_json(report.to_dict())
    else:
        rich.console.Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH).print(render(report))
    if not report.outcomes["ok"] and not report.stopped_early:
        seen = ", ".join(f"{num} {outcome}" for outcome, num in report.outcomes.items() if num) or "nothing was sent"
        given = " --data ..." if workload.method == "POST" else ""
        raise Failure(f"no request was answered well: {seen}", f"curl -i{given} {url} shows one answer")


def _workload(url: str, data: str | None, file: str | None, headers: Mapping[str, str]) -> Workload:
    if data is not None and data.startswith("@") and data.endswith(".jsonl"):
        return Workload.from_jsonl(url, Path(data[1:]), headers=headers)
    given = body.read(data, file)
    if given is None:
        return Workload(url=url, method="GET", headers=headers)
    return Workload(url=url, headers={"content-type": given.media_type, **headers}, bodies=(given.content,))


async def _bench(
    workload: Workload,
    *,
    rate: float | None,
    arrivals: Arrivals,
    duration: float,
    warmup: float | None,
    concurrency: int | None,
    slo: float | None,
    processes: int,
    timeout: float,
    seed: int,
) -> Report:
    load: OpenLoop | ClosedLoop
    if rate is None:
        load = ClosedLoop(num_callers=concurrency or 1)
    else:
        load = OpenLoop(rate_per_s=rate, arrivals=arrivals, max_concurrency=concurrency)
    descriptors.allow_most()
    with stop_on_interrupt() as stop, progress.of_time(f"load on {workload.url}", duration + (warmup or 0.0)):
        return await run(
            load,
            workload,
            duration_s=duration,
            warmup_s=warmup or 0.0,
            processes=processes,
            timeout_s=timeout,
            slo_ms=None if slo is None else slo * 1e3,
            seed=seed,
            stop=stop,
        )
