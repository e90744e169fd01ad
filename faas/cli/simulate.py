"""`faas simulate`: what settings would have cost on a trace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from faas import inference_function
from faas.cli import listing, progress
from faas.cli import store as stores
from faas.cli.failure import Failure
from faas.cli.listing import duration
from faas.description import Description
from faas.platform import trace
from faas.platform.simulation import Outcome, simulate
from faas.prepare import prepare
from faas.spec import KEEP_ALIVE_MODES, KeepAliveMode

_COLUMNS: listing.Columns = {
    "keep-alive": lambda row: row["keep_alive"],
    "window": lambda row: duration(row["scaledown_window_s"]) if row["keep_alive"] == "fixed" else None,
    "calls": lambda row: row["num_calls"],
    "cold": lambda row: row["num_cold"],
    "cold share": lambda row: f"{row['cold_share']:.2%}",
    "starts": lambda row: row["num_starts"],
    "instance-seconds": lambda row: f"{row['instance_s']:.0f}",
    "waited on average": lambda row: duration(row["waited_s"] / max(1, row["num_calls"])),
}


@click.command()
@click.argument("path", metavar="TRACE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", required=False)
@click.option("--window", type=click.FloatRange(0, min_open=True), help="scaledown_window_s, instead of TARGET's.")
@click.option("--keep-alive", type=click.Choice(KEEP_ALIVE_MODES), help="Only this one; else both, to be compared.")
@click.option("--max-instances", type=click.IntRange(1), help="max_instances, instead of TARGET's.")
@click.option("--start", "start_s", default=0.1, show_default=True, help="Seconds until a new instance is ready.")
@stores.option
@listing.option
def command(
    path: Path,
    target: str | None,
    window: float | None,
    keep_alive: KeepAliveMode | None,
    max_instances: int | None,
    start_s: float,
    store: Path | None,
    as_json: bool,
) -> None:
    """Replay the calls of TRACE against the settings of TARGET, or the defaults: cold starts and instance-seconds.

    TRACE is a CSV in the format of Azure's trace of 2021: app, func, end_timestamp, duration (seconds). Each of its
    functions is taken to have these settings. No instance is started: the platform's own control loop runs on a clock
    that jumps.
    """
    found = trace.read(path)
    given = {"scaledown_window_s": window, "max_instances": max_instances}
    description = msgspec.structs.replace(
        _description(target, stores.root(store)), **{name: value for name, value in given.items() if value is not None}
    )
    modes = KEEP_ALIVE_MODES if keep_alive is None else (keep_alive,)
    rows = [_row(found, msgspec.structs.replace(description, keep_alive=mode), start_s) for mode in modes]
    listing.show(rows, _COLUMNS, as_json=as_json, none="nothing")


def _row(found: trace.Trace, description: Description, start_s: float) -> dict[str, object]:
    total = Outcome()
    for calls in found.calls.values():
        total += simulate(description, calls, start_s=start_s, until_s=found.duration_s)
    settings = {name: getattr(description, name) for name in ("keep_alive", "scaledown_window_s")}
    counted = {name: getattr(total, name) for name in total.__slots__}
    return settings | counted | {"cold_share": total.cold_share}


def _description(target: str | None, store: Path) -> Description:
    if target is None:
        return Description.of(inference_function(name="any")(_any), "any")
    with progress.steps() as step:
        made = asyncio.run(prepare(target, store, progress=step))
    if len(made) > 1:
        names = ", ".join(one.python_name for one in made)
        raise Failure(f"{target} has several functions: {names}", f"name one of them: {target}:{made[0].python_name}")
    return made[0].description


def _any() -> None:
    """Stand for a function of which nothing is known but the defaults."""
