"""A function of a target on a port, in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from faas import settings
from faas.cli import port as ports
from faas.cli.failure import WORK_FAILED, Failure
from faas.function import Function
from faas.handler import Handler
from faas.runtime import STOOD_AT, Runtime
from faas.server.admin import Admin
from faas.server.serve import Server, Stop
from faas.spec import Versions

if TYPE_CHECKING:
    from faas.engine.versions.supply import Supply

logger = logging.getLogger(__name__)


def serve(function: Function, listen: socket.socket, *, keep_alive_s: float, is_child: bool = False) -> int:
    """Be one instance of `function` on a listening socket. Returns the exit code.

    With `is_child` it also ends when standard input does: with the process that started it.

    Raises:
        Failure: the function did not start.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(function, listen, keep_alive_s, is_child))


async def _serve(function: Function, listen: socket.socket, keep_alive_s: float, is_child: bool) -> int:
    found = settings.read()
    handler, supply = Handler(function), None
    if function.spec.versions is not None:
        supply = _supply(function, function.spec.versions, found.snapshots)
    runtime = Runtime(function, handler, version="local", supply=supply, debug=found.debug)
    runtime.begin(f"{function.name}-{os.getpid()}")
    url = ports.url_of(listen)

    def load() -> None:
        if supply is None:
            handler.setup()
            handler.after_thaw()
        else:
            os.environ.update(function.spec.env)

    stop = Stop()
    if is_child:
        _stop_with_parent(stop)
    code = await Server(runtime, keep_alive_s, admin=Admin("local", found.token)).serve(
        [listen],
        load=load,
        grace_s=function.spec.calls.grace_period_s,
        lame_duck_s=found.lame_duck_s or 0.0,
        on_ready=lambda: logger.info("%s is at %s", function.name, url),
        stop=stop,
    )
    if runtime.state == "failed":
        reason = runtime.reason.partition(STOOD_AT)[0]  # where it stood is a whole stack, which is logged
        raise Failure(f"{function.name} did not start: {reason}", "correct it and serve it again", WORK_FAILED)
    return code


def _supply(function: Function, spec: Versions, store: Path) -> Supply:
    """Return what brings the versions of a function into memory: those that it names, or its own in the store."""
    from faas import versions  # nothing to a function without versions
    from faas.instance_messages import Revision
    from faas.revision import supply_of

    code = Path(str(sys.modules[str(function.__module__)].__file__)).parent
    place = str(versions.folder_of(function.name, store)) if spec.source is None else versions.at(spec.source, code)
    return supply_of(Revision(id="local", target="", function=function.name), place, function)


def _stop_with_parent(stop: Stop) -> None:
    """Stop when standard input ends, whose other end the parent holds."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(descriptor)
        stop.tell()

    loop.add_reader(descriptor, ended)
