"""A platform that is started in the background, and followed until it is up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from faas import address, settings
from faas.cli.failure import WORK_FAILED, Failure
from faas.cli.watch import watching
from faas.settings import Settings


def up_detached(targets: Sequence[str], options: Sequence[str]) -> int:
    """Start a platform in a session of its own and show what it says until it is up. Returns the exit code.

    Raises:
        Failure: it ended before it was up.
    """
    found = settings.read()
    for folder in (found.run, found.logs):
        folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_up(targets, options, found, found.logs / "platform.log"))


async def _up(targets: Sequence[str], options: Sequence[str], found: Settings, log: Path) -> int:
    with log.open("ab") as out, log.open("rb") as said:
        said.seek(0, os.SEEK_END)
        async with watching(found.run, log.parent) as watch:
            child = _start([*targets, *options], out)
            try:
                with _end_of(child.pid) as ended:
                    while not _is_up(found, child.pid) and not ended.done():
                        await asyncio.wait((watch.changed, ended), return_when=asyncio.FIRST_COMPLETED)
                        watch.take()
                        _show(said)
            except asyncio.CancelledError:
                child.terminate()
                raise
        _show(said)
    if not _is_up(found, child.pid):
        raise Failure("the platform ended before it was up", f"{log} holds what it said", WORK_FAILED)
    click.echo(f"the platform runs as process {child.pid}; stop it with: faas down", err=True)
    return 0


def _start(arguments: Sequence[str], out: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a platform that outlives this process; a child of asyncio's would be killed with the loop."""
    return subprocess.Popen(
        (sys.executable, "-m", "faas.cli.main", "up", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        start_new_session=True,
    )


@contextlib.contextmanager
def _end_of(pid: int) -> Iterator[asyncio.Future[None]]:
    """Give a future that is done when a process ends."""
    loop, descriptor = asyncio.get_running_loop(), os.pidfd_open(pid)
    ended: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        loop.remove_reader(descriptor)
        ended.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        yield ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _is_up(found: Settings, pid: int) -> bool:
    record = address.read_record(found)
    return record is not None and record.pid == pid


def _show(said: BinaryIO) -> None:
    click.echo(said.read(), err=True, nl=False)
