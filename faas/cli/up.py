"""`faas up`: the one-box platform."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import click
import uvloop

from faas import address, settings
from faas.cli import log_format as logs
from faas.cli import port as ports
from faas.cli import store as stores
from faas.cli.failure import Failure
from faas.platform.main import run
from faas.settings import Settings
from faas.spec import KEEP_ALIVE_MODES, LOAD_MODES
from faas.targets import Target


@click.command()
@click.argument("targets", nargs=-1)
@ports.options
@stores.option
@click.option(
    "--load",
    type=click.Choice(LOAD_MODES),
    help="How snapshots come into memory, whatever the functions say (env: FAAS_SNAPSHOT_LOAD).",
)
@click.option("--memory", metavar="SIZE", help="What all may take together, as 8Gi (env: FAAS_MEMORY).")
@click.option(
    "--keep-alive",
    type=click.Choice(KEEP_ALIVE_MODES),
    help="How long idle functions stay warm, whatever they say (env: FAAS_KEEP_ALIVE).",
)
@click.option(
    "--functions",
    metavar="FOLDER|S3://BUCKET/PREFIX",
    help="Serve the bundles that are there, too, and follow what becomes of them.",
)
@click.option(
    "--token",
    help="Have the control interface on the port too, for who sends this token (env: FAAS_TOKEN, which other users of "
    "the machine cannot see).",
)
@click.option("--detach", "-d", is_flag=True, help="Return once it is up, and leave it running.")
@logs.option
def command(
    targets: tuple[str, ...],
    host: str,
    port: int,
    store: Path | None,
    load: str | None,
    memory: str | None,
    keep_alive: str | None,
    functions: str | None,
    token: str | None,
    detach: bool,
    log_format: str | None,
) -> int:
    """Serve the functions of all TARGETS on this machine, each from zero: at /f/NAME/ and by Host header.

    What was deployed before is served again, with or without TARGETS; those that have not changed get no new revision.
    What is missing is made ready first. Stop it with Ctrl-C or faas down; calls in flight are answered before it ends,
    unless it is told twice.
    """
    given = {settings.SNAPSHOT_LOAD: load, settings.MEMORY: memory, settings.KEEP_ALIVE: keep_alive}
    os.environ.update({name: value for name, value in given.items() if value is not None})  # for all that this starts
    if token is not None:
        os.environ[settings.TOKEN] = token
    found = settings.read()
    _refuse_another(found)
    for target in targets:
        Target.of(target)  # one that is not there, likely mistyped, shall be told before others are made ready
    ports.check(host, port)  # a taken port shall be told before anything is made ready
    if detach:
        from faas.cli.detach import up_detached  # watchfiles is for this alone

        options = ["--host", host, "--port", str(port), *(["--store", str(store)] if store else [])]
        options += ["--functions", functions] if functions else []
        return up_detached(targets, options)
    logs.configure(log_format)
    os.environ.pop(settings.TOKEN, None)  # functions inherit the environment, and are not to have it
    platform = run(
        list(targets),
        host=host,
        port=port,
        settings=found,
        store=stores.root(store),
        functions=functions,
        token=found.token,
        progress=say,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(platform)


def _refuse_another(found: Settings) -> None:
    """There is one platform for each `FAAS_HOME`."""
    record = address.read_record(found)
    if record is not None:
        raise Failure(f"a platform runs here already: process {record.pid}, at {record.url}", "faas down ends it")
    pid = address.holder(found)
    if pid is not None:
        raise Failure(f"a platform is coming up here already: process {pid}", "faas down ends it")


def say(text: str) -> None:
    """Tell whoever reads standard error."""
    with contextlib.suppress(OSError):  # whoever read it may be gone, and what is served goes on
        click.echo(text, err=True)
