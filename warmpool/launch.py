"""Starting an interpreter: a zygote, or a worker the slow way."""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from warmpool import protocol
from warmpool.environment import Environment
from warmpool.errors import WorkerStartError, ZygoteStartError
from warmpool.lifeline import Lifeline
from warmpool.process import Process, Worker
from warmpool.threads import ONE_THREAD

_THREAD_PAYLOAD_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)

_ROOT = str(Path(__file__).resolve().parent.parent)
# Not `-m`: the interpreter may have no warmpool of its own, and the working directory is no place to import from. Where
# it has one, ours is not added: what else lies beside ours must not become importable. Garbage is collected once all is
# imported.
_BOOT = """import gc, sys, importlib.util
gc.disable()
root = sys.argv.pop(1)
if importlib.util.find_spec("warmpool") is None:
    sys.path.append(root)
from warmpool.{role} import main
main()
"""


def base_env(environment: Environment) -> dict[str, str]:
    """Return the variables a plain process of this environment would have."""
    return {**os.environ, **dict(environment.env)}


def remembered(environment: Environment) -> dict[str, str | None]:
    """Return the user's own values of the variables that are overridden in a zygote; None for those not set."""
    base = base_env(environment)
    return {name: base.get(name) for name in ONE_THREAD}


def start_zygote(environment: Environment) -> tuple[Process, socket.socket]:
    """Start a zygote's process; return it and the socket to it. Raises ZygoteStartError when the system refuses."""
    try:
        child, pidfd, lifeline, ours = _popen("zygote", environment, base_env(environment) | ONE_THREAD)
    except OSError as error:
        raise ZygoteStartError(f"a zygote of {environment.python} could not be started: {error}") from error
    process = Process(child.pid, pidfd, lifeline)
    process.watch(child.wait)
    return process, ours


async def exec_worker(environment: Environment, request: protocol.Request, why: str) -> Worker:
    """Start a worker as a new interpreter, and warn of it with the reason.

    Raises WorkerStartError when the system refuses.
    """
    request = msgspec.structs.replace(request, sys_path=(*request.sys_path, *environment.sys_path))
    _log.warning("worker %s is started by exec, not by fork: %s", request.entry, why)
    env = base_env(environment) | request.env
    started_at = time.monotonic()
    try:
        child, pidfd, lifeline, ours = _popen("worker", environment, {k: v for k, v in env.items() if v is not None})
    except OSError as error:
        raise WorkerStartError(f"a worker of {environment.python} could not be started: {error}") from error
    worker = Worker(child.pid, pidfd, lifeline, started_at)
    worker.how, worker.why = "exec", why
    worker.watch(child.wait)
    with ours:
        try:
            await adopt(ours, request)
        except BrokenPipeError:
            pass  # it has died already, as its exit status says
        except BaseException:
            worker.kill()
            await worker.wait()
            raise
    return worker


async def adopt(sock: socket.socket, request: protocol.Request) -> None:
    """Tell the worker that waits at the other end of `sock` what to be. Raises BrokenPipeError when it has died."""
    async with packed(request) as pack:
        protocol.send(sock, protocol.Adopt(request=pack.request, payload_in_memfd=pack.in_memfd), pack.fds)


@contextlib.asynccontextmanager
async def packed(request: protocol.Request) -> AsyncIterator[protocol.Packed]:
    """Have a request ready to be sent; a payload of many megabytes is copied on another thread."""
    if len(request.payload) < _THREAD_PAYLOAD_BYTES:
        pack = protocol.pack(request)
    else:
        copying = asyncio.ensure_future(asyncio.to_thread(protocol.pack, request))
        try:
            pack = await asyncio.shield(copying)
        except asyncio.CancelledError:
            copying.add_done_callback(_close_copy)
            raise
    try:
        yield pack
    finally:
        pack.close()


def _close_copy(copied: asyncio.Future[protocol.Packed]) -> None:
    if copied.exception() is None:
        copied.result().close()


def _popen(
    role: Literal["zygote", "worker"], environment: Environment, env: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int, Lifeline, socket.socket]:
    """Start an interpreter with a socket and a lifeline; return it, its pidfd, the lifeline and our socket.

    It has a session of its own: what a terminal sends, the client alone gets, and decides. Raises OSError.
    """
    with contextlib.ExitStack() as undo:
        ours, theirs = protocol.socketpair()
        undo.callback(ours.close)
        with theirs:
            lifeline = Lifeline.create()
            undo.callback(lifeline.cut)
            fds = (theirs.fileno(), lifeline.given)
            command = [environment.python, "-P", "-c", _BOOT.format(role=role), _ROOT, *map(str, fds)]
            child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True)
        undo.callback(child.wait)
        undo.callback(child.kill)
        pidfd = os.pidfd_open(child.pid)
        undo.pop_all()
    return child, pidfd, lifeline, ours
