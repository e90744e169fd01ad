"""A lifeline: when the process that holds its far end dies or lets go, this one dies, whatever it is doing.

A pipe whose write end only the client holds, never written to. The worker asks the kernel to send SIGKILL when the pipe
changes (F_SETOWN, F_SETSIG, O_ASYNC), and the only change there can be is that the last writer is gone. So no thread
watches, a worker stuck in native code dies as surely as an idle one, and the death of the zygote, which is the worker's
parent, is no reason to die (as it would be with PR_SET_PDEATHSIG). Each process has a pipe of its own, because an open
file has one owner. The owner of a worker's is its process group, so that what it has started ends with it; the client
keeps the read end open as well, so that this holds even when the worker itself is gone before.
"""

import fcntl
import os
import select
import signal
from typing import Self

import msgspec


class Lifeline(msgspec.Struct, frozen=True):
    """Both ends, in the client: `given` goes to the worker too, `held` to nobody."""

    held: int
    given: int

    @classmethod
    def create(cls) -> Self:
        """Open a lifeline. Raises OSError when there is no descriptor left."""
        given, held = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        return cls(held, given)

    def cut(self) -> None:
        """End what is tied to it and still lives."""
        os.close(self.held)
        os.close(self.given)


_own = -1


def own() -> int:
    """Return the descriptor of the lifeline that this process holds."""
    return _own


def hold(given: int) -> None:
    """Tie this process and all of its process group to the lifeline `given`, which stays open from here on."""
    global _own
    _own = given
    fcntl.fcntl(given, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(given, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(given, fcntl.F_SETFL, fcntl.fcntl(given, fcntl.F_GETFL) | os.O_ASYNC)
    os.set_inheritable(given, False)
    if _is_cut(given):  # before the signal was armed
        os.kill(os.getpid(), signal.SIGKILL)


def _is_cut(given: int) -> bool:
    poll = select.poll()
    poll.register(given, 0)
    return bool(poll.poll(0))
