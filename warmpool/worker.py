"""A worker process, from its first instruction to its last: forked from a zygote, or started by exec.

Started by exec (`launch`), with the numbers of a socket and a lifeline as arguments, it reads one `Adopt` and runs it.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import operator
import os
import socket
import sys
import traceback
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from warmpool import descriptors, fresh, lifeline, orphans, protocol, threads

_STREAMS = {"stdout": 1, "stderr": 2}
_libc = ctypes.CDLL(None)


def become_worker(lifeline_fd: int, keep: Collection[int], opened_by_imports: Collection[int]) -> None:
    """Turn a copy of the zygote into a process of its own."""
    os.setsid()  # what it sends to its own process group reaches no sibling
    orphans.adopt()
    lifeline.hold(lifeline_fd)
    descriptors.close_all_but({lifeline_fd, *keep, *opened_by_imports})
    descriptors.make_private(opened_by_imports)
    fresh.start_worker()


def await_request(fd: int, park: protocol.Park | None = None) -> protocol.Request:
    """Wait, parked, for the request on a message socket; when the client hangs up, end: nobody needs this worker.

    `park` is run first, and a request that comes meanwhile waits for it. Raises whatever it raises.
    """
    with socket.socket(fileno=fd) as sock:
        if park is not None:
            resolve(park.entry)(park.payload)
            with contextlib.suppress(BrokenPipeError):
                sock.send(protocol.SETTLED, socket.MSG_NOSIGNAL)
        try:
            message, fds = protocol.receive(sock, protocol.WORKER_INBOX)
        except EOFError:
            os._exit(0)
        with contextlib.suppress(BrokenPipeError):  # who had it exec'd does not wait for the answer
            sock.send(protocol.ADOPTED, socket.MSG_NOSIGNAL)
    return protocol.unpack(message.request, fds, message.payload_in_memfd)


def run(request: protocol.Request, limits: threads.Limits) -> int:
    """Run the request's entry in this process and return the exit status."""
    try:
        _apply(request, limits)
        fds = {name: fd for name, fd in request.fds.items() if name not in _STREAMS}
        entry = resolve(request.entry)
        gc.enable()  # not before where this worker was started by exec: imports make no garbage
        status = entry(request.payload, fds)
        return 0 if status is None else operator.index(status)
    except SystemExit as wanted:
        return _status_of(wanted)
    except BaseException:
        traceback.print_exc()
        return 1


def leave(status: int) -> NoReturn:
    """End the process after its own exit callbacks.

    Its threads are not waited for, and its interpreter is not taken apart, which takes long when torch is in it.
    """
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        flush_c()
    except BaseException:  # an exit callback failed, or nobody reads any more
        status = status or 1
    finally:
        os._exit(status & 0xFF)


def flush_c() -> None:
    """Write what the C library holds back, such as what native code has printed."""
    _libc.fflush(None)


def main() -> NoReturn:
    """Be a worker that was started by exec."""
    sock, lifeline_fd = map(int, sys.argv[1:])
    del sys.argv[1:]
    lifeline.hold(lifeline_fd)
    leave(run(await_request(sock), threads.Limits.find()))


def _apply(request: protocol.Request, limits: threads.Limits) -> None:
    for name, target in _STREAMS.items():
        if name in request.fds:
            os.dup2(request.fds[name], target)
            os.close(request.fds[name])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    for name, value in request.env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if request.cwd is not None:
        os.chdir(request.cwd)
    sys.path[:0] = request.sys_path
    limits.apply(os.environ, request.num_workers)


def resolve(entry: str) -> Callable[..., Any]:
    """Return what `package.module:function` names, imported if need be."""
    module, _, path = entry.partition(":")
    target: object = importlib.import_module(module)
    for name in path.split("."):
        target = getattr(target, name)
    return target  # type: ignore[return-value]


def _status_of(wanted: SystemExit) -> int:
    if wanted.code is None or isinstance(wanted.code, int):
        return wanted.code or 0
    print(wanted.code, file=sys.stderr)
    return 1
