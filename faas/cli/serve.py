"""`faas serve`: one instance on a port, in this process: of a target, or of a bundle as a container runs it.

A container's port is to be open as soon as it runs. So what an instance is made of is imported after that.
"""

from __future__ import annotations

import signal
import socket
from typing import NoReturn

import click
from click.core import ParameterSource

from faas import settings
from faas.cli import entry
from faas.cli import log_format as logs
from faas.cli import port as ports
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.server import KEEP_ALIVE_S
from faas.signals import stop_signals


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
        from faas.targets import Target

        options = ["--keep-alive", str(keep_alive), *(["--log-format", log_format] if log_format else [])]
        return serve_again_and_again(Target.of(target), ports.listen(host, port), options)
    from faas.cli import environment, here, run  # nothing to whoever serves a bundle, whose start is waited for

    function = run.one(environment.load(target), target)
    listen = ports.listen(host, port) if listen_fd is None else socket.socket(fileno=listen_fd)
    return here.serve(function, listen, keep_alive_s=keep_alive, is_child=listen_fd is not None)


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
    opened = entry.take_port()
    if opened is not None:
        return opened
    if ctx.get_parameter_source("host") is ParameterSource.DEFAULT:
        host = "0.0.0.0"
    if ctx.get_parameter_source("port") is ParameterSource.DEFAULT:
        port = settings.read().port or port
    return ports.listen(host, port)


def _serve_bundle(bundle: str, listen: socket.socket, keep_alive_s: float) -> int:
    from faas.errors import StartFailed
    from faas.server.porter import Porter

    def begin_again(needed: tuple[str, ...]) -> NoReturn:
        from faas.cli import environment  # nothing to a container that has what its bundle requires

        environment.begin_again(needed)

    for signum in stop_signals():
        signal.signal(signum, entry.end)  # the first process of a container is ended by none that it does not take
    try:
        with listen:
            with Porter(listen) as porter:
                from faas import dedicated  # with all that an instance is made of, which takes a while

                instance = dedicated.load(bundle, keep_alive_s=keep_alive_s, otherwise=begin_again)
            return instance.serve(listen, porter.held)
    except StartFailed as error:
        raise Failure(str(error), "correct it and make the bundle again", WORK_FAILED) from error
