"""`faas serve`: one instance on a port, in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys

import click
import uvloop

from faas import settings
from faas.cli import environment
from faas.cli import log_format as logs
from faas.cli import port as ports
from faas.cli.failure import WORK_FAILED, Failure
from faas.cli.run import one
from faas.function import Function
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server.serve import KEEP_ALIVE_S, Server, Stop
from faas.targets import Target

logger = logging.getLogger(__name__)


@click.command()
@click.argument("target")
@ports.options
@click.option("--reload", is_flag=True, help="Start again when a Python file beside the target's changes.")
@click.option(
    "--keep-alive",
    type=click.FloatRange(0, min_open=True),
    default=KEEP_ALIVE_S,
    show_default=True,
    metavar="SECONDS",
    help="How long an idle connection is kept.",
)
@logs.option
@click.option("--listen-fd", type=int, hidden=True, help="Listen on this descriptor, until standard input ends.")
def command(
    target: str,
    host: str,
    port: int,
    reload: bool,
    keep_alive: float,
    log_format: str | None,
    listen_fd: int | None,
) -> int:
    """Serve the function of TARGET on a port until stopped. A second Ctrl-C does not wait for calls in flight."""
    logs.configure(log_format)
    if reload:
        from faas.cli.reload import serve_again_and_again  # watchfiles is for this alone

        options = ["--keep-alive", str(keep_alive), *(["--log-format", log_format] if log_format else [])]
        return serve_again_and_again(Target.of(target), ports.listen(host, port), options)
    function = one(environment.load(target), target)
    listen = ports.listen(host, port) if listen_fd is None else socket.socket(fileno=listen_fd)
    return serve_here(function, listen, keep_alive_s=keep_alive, is_child=listen_fd is not None)


def serve_here(function: Function, listen: socket.socket, *, keep_alive_s: float, is_child: bool = False) -> int:
    """Be one instance of `function` on a listening socket. Returns the exit code.

    With `is_child` it also ends when standard input does: with the process that started it.

    Raises:
        Failure: the function did not start.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(function, listen, keep_alive_s, is_child))


async def _serve(function: Function, listen: socket.socket, keep_alive_s: float, is_child: bool) -> int:
    found = settings.read()
    handler = Handler(function)
    runtime = Runtime(function, handler, version="local", debug=found.debug)
    runtime.begin(f"{function.name}-{os.getpid()}")
    url = ports.url_of(listen)

    def load() -> None:
        handler.setup()
        handler.after_thaw()

    stop = Stop()
    if is_child:
        _stop_with_parent(stop)
    code = await Server(runtime, keep_alive_s).serve(
        [listen],
        load=load,
        grace_s=function.spec.calls.grace_period_s,
        lame_duck_s=found.lame_duck_s,
        on_ready=lambda: logger.info("%s is at %s", function.name, url),
        stop=stop,
    )
    if runtime.state == "failed":
        raise Failure(f"{function.name} did not start: {runtime.reason}", "correct it and serve it again", WORK_FAILED)
    return code


def _stop_with_parent(stop: Stop) -> None:
    """Stop when standard input ends, whose other end the parent holds."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(descriptor)
        stop.tell()

    loop.add_reader(descriptor, ended)
