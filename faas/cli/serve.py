"""`faas serve`: one instance on a port, in this process: of a target, or of a bundle as a container runs it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import uvloop
from click.core import ParameterSource

from faas import settings
from faas.cli import log_format as logs
from faas.cli import port as ports
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.function import Function
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server.admin import Admin
from faas.server.serve import KEEP_ALIVE_S, Server, Stop
from faas.spec import Versions
from faas.targets import Target

if TYPE_CHECKING:
    from faas.engine.versions.supply import Supply

logger = logging.getLogger(__name__)


@click.command()
@click.argument("target", required=False)
@click.option(
    "--bundle",
    metavar="PLACE",
    help="Serve a bundle as a container does: its folder, its archive, or s3://bucket/prefix of either. Default: "
    "FAAS_BUNDLE. Listens on all addresses and on PORT, unless told otherwise.",
)
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
@click.pass_context
def command(
    ctx: click.Context,
    target: str | None,
    bundle: str | None,
    host: str,
    port: int,
    reload: bool,
    keep_alive: float,
    log_format: str | None,
    listen_fd: int | None,
) -> int:
    """Serve the function of TARGET, or a bundle, on a port until stopped.

    A second Ctrl-C does not wait for calls in flight.
    """
    logs.configure(log_format)
    bundle = _bundle(target, bundle, reload)
    if bundle is not None:
        return _serve_bundle(bundle, _listen_as_a_container(ctx, host, port), keep_alive)
    assert target is not None
    if reload:
        from faas.cli.reload import serve_again_and_again  # watchfiles is for this alone

        options = ["--keep-alive", str(keep_alive), *(["--log-format", log_format] if log_format else [])]
        return serve_again_and_again(Target.of(target), ports.listen(host, port), options)
    from faas.cli import environment, run  # nothing to whoever serves a bundle, whose start is waited for

    function = run.one(environment.load(target), target)
    listen = ports.listen(host, port) if listen_fd is None else socket.socket(fileno=listen_fd)
    return serve_here(function, listen, keep_alive_s=keep_alive, is_child=listen_fd is not None)


def _bundle(target: str | None, bundle: str | None, reload: bool) -> str | None:
    """Return the bundle that is meant; None where it is a target."""
    if target is not None and bundle is not None:
        raise Failure(f"both a target ({target}) and --bundle {bundle}", "give one of them", CALL_WAS_WRONG)
    if target is None and bundle is None:
        bundle = settings.read().bundle
        if bundle is None:
            raise click.UsageError("Missing argument 'TARGET', or --bundle, or FAAS_BUNDLE.")
    if bundle is not None and reload:
        raise Failure("a bundle does not change, and --reload waits for that", "leave --reload out", CALL_WAS_WRONG)
    return bundle


def _listen_as_a_container(ctx: click.Context, host: str, port: int) -> socket.socket:
    """Return the socket: on all addresses and the environment's PORT, where neither was said."""
    if ctx.get_parameter_source("host") is ParameterSource.DEFAULT:
        host = "0.0.0.0"
    if ctx.get_parameter_source("port") is ParameterSource.DEFAULT:
        port = settings.read().port or port
    return ports.listen(host, port)


def _serve_bundle(bundle: str, listen: socket.socket, keep_alive_s: float) -> int:
    from faas import dedicated  # nothing to whoever serves a target
    from faas.errors import StartFailed

    def begin_again(needed: tuple[str, ...]) -> NoReturn:
        from faas.cli import environment  # nothing to a container that has what its bundle requires

        environment.begin_again(needed)

    try:
        with listen:
            return dedicated.serve(bundle, listen, keep_alive_s=keep_alive_s, otherwise=begin_again)
    except StartFailed as error:
        raise Failure(str(error), "correct it and make the bundle again", WORK_FAILED) from error


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
        raise Failure(f"{function.name} did not start: {runtime.reason}", "correct it and serve it again", WORK_FAILED)
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
