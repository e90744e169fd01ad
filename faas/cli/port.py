"""A listening socket for `--host` and `--port`, or the reason why there is none."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from faas.cli.entry import BACKLOG
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure

_LISTENING: Final = "0A"  # the state's number in /proc/net/tcp (include/net/tcp_states.h in Linux)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--host` and `--port`."""
    kind = click.IntRange(0, 65535)
    command = click.option("--port", type=kind, default=8000, show_default=True, help="The port; 0 for any.")(command)
    return click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")(command)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`; port 0 is any free one.

    Raises:
        Failure: the host is unknown or not this machine's, or the port is taken; names the process if it can.
    """
    return _bound(host, port, listens=True)


def check(host: str, port: int) -> None:
    """Tell that `host` and `port` can be listened on, without doing so: who connected would be cut. Raises Failure."""
    _bound(host, port, listens=False).close()


def _bound(host: str, port: int, *, listens: bool) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise Failure(f"--host {host}: {error.strerror}", "--host 127.0.0.1 or 0.0.0.0", CALL_WAS_WRONG) from None
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        if listens:
            sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise _refusal(error, host, port) from None
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the URL of what listens on a socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refusal(error: OSError, host: str, port: int) -> Failure:
    if error.errno == errno.EADDRINUSE:
        holder = holder_of(port)
        by = f" by {holder}" if holder is not None else ""
        return Failure(f"port {port} is taken{by}", "--port 0 takes a free one", WORK_FAILED)
    if error.errno == errno.EADDRNOTAVAIL:
        return Failure(f"--host {host} is no address of this machine", "--host 127.0.0.1 or 0.0.0.0", CALL_WAS_WRONG)
    return Failure(f"cannot listen on {host}:{port}: {error.strerror}", "choose another --port", WORK_FAILED)


def holder_of(port: int, proc: Path = Path("/proc")) -> str | None:
    """Return `NAME (process PID)` of whoever listens on a TCP port, None where that cannot be seen."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    for folder in proc.glob("[0-9]*") if inodes else ():
        # Another user's processes cannot be looked into, and any may end while it is looked at.
        with contextlib.suppress(OSError):
            if not inodes.isdisjoint(_opened(folder / "fd")):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
    return None


def _opened(descriptors: Path) -> Iterator[str]:
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(descriptor)


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            rows = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            if columns[3] == _LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                yield columns[9]
