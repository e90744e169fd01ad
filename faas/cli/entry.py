"""Where the command `faas` begins, before all that it is made of is imported.

A container's port is opened here. The kubelet looks for it when the container has started, which takes less time than
our imports, and after that once a second only.
"""

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

BACKLOG = 2048

_opened: list[socket.socket] = []


def main() -> None:
    """Run the command line."""
    open_port(sys.argv[1:], os.environ)
    from faas.cli.main import main as command_line

    command_line()


def open_port(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Listen for `faas serve --bundle PLACE` where the environment says on which port.

    Where that cannot be done nothing is: the command itself tries again, and can say why not.
    """
    port = environment.get("PORT", "")
    if list(words[:2]) != ["serve", "--bundle"] or len(words) != 3 or not port.isdecimal():
        return
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("0.0.0.0", int(port)))
        sock.listen(BACKLOG)
    except (OSError, OverflowError):
        sock.close()
    else:
        _opened.append(sock)
        signal.signal(signal.SIGTERM, end)


def take_port() -> socket.socket | None:
    """Return the socket that was opened, for whoever closes it; None where none was."""
    return _opened.pop() if _opened else None


def end(signum: int, frame: FrameType | None) -> None:
    """Take a signal to stop while nothing has begun yet."""
    os._exit(0)
