"""Serving in a child process that is started anew when the code changes.

The parent holds the listening socket, so that a caller who comes between two children waits and is not turned away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import watchfiles

from faas.cli import port as ports
from faas.cli.watch import watching
from faas.targets import Target

DRAIN_S: Final = 5.0
"""How long an old child may take to finish its calls before it is told to end at once, and then again to be killed."""

logger = logging.getLogger(__name__)


def serve_again_and_again(target: Target, listen: socket.socket, options: Sequence[str]) -> int:
    """Serve `target` on `listen` until told to stop, by a child for each state of its code. Returns the exit code."""
    with listen:
        return asyncio.run(_supervise(target, listen, options))


async def _supervise(target: Target, listen: socket.socket, options: Sequence[str]) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    logger.info(
        "serving %s at %s, and again after each change below %s", target.text, ports.url_of(listen), target.folder
    )
    async with watching(target.folder, only=watchfiles.PythonFilter()) as watch:
        end = asyncio.ensure_future(stopped.wait())
        while not end.done():
            child = await _start(target, listen, options)
            ended = asyncio.ensure_future(child.wait())
            await asyncio.wait((watch.changed, ended, end), return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not watch.changed.done() and not end.done():
                logger.warning("it ended with status %d; waiting for a change", ended.result())
                await asyncio.wait((watch.changed, end), return_when=asyncio.FIRST_COMPLETED)
            await _end(child)
            changed = sorted(str(Path(path).relative_to(target.folder)) for path in watch.take())
            if changed:
                logger.info("%s changed", ", ".join(changed))
    return 0


async def _start(target: Target, listen: socket.socket, options: Sequence[str]) -> asyncio.subprocess.Process:
    fd = listen.fileno()
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "faas.cli.main", "serve", target.text, "--listen-fd", str(fd), *options),
        stdin=asyncio.subprocess.PIPE,
        pass_fds=(fd,),
        process_group=0,  # a terminal's Ctrl-C is for the parent, which then stops the child once
    )


async def _end(child: asyncio.subprocess.Process) -> None:
    """Have the child finish its calls, then end at once, then be killed."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            break
        child.send_signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await child.wait()
    await child.wait()
