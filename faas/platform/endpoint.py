"""An instance as the activator sees it, and what a connection to it has to be able to do. No I/O."""

from collections.abc import Callable
from typing import Protocol

UNLIMITED = 2**31


class Caller(Protocol):
    """Who uses a connection for a request."""

    def received(self, data: bytes) -> None:
        """The next bytes from the instance."""

    def lost(self, *, unread: bool) -> None:
        """The instance closed the connection; `unread` where it had not read what was sent last."""

    def drained(self) -> None:
        """What was to be sent has been sent."""


class Connection(Protocol):
    """An open connection to an instance, idle or with a caller."""

    is_congested: bool  # the instance does not keep up with what is sent to it

    def begin(self, caller: Caller, data: bytes) -> None:
        """Send the beginning of a request. Raises OSError where not one byte of it has left."""

    def send(self, data: bytes) -> None:
        """Send on."""

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None:
        """Read again."""

    def give_back(self) -> None:
        """The request is over, the answer read to its end: idle from now on."""

    def close(self) -> None:
        """Close it at once; its caller hears nothing more."""

    def instance_died(self) -> None:
        """Nothing more will come of it: fail who uses it."""


class Endpoint:
    """An instance as the activator sees it: its socket's path, its id, what is in flight, and the connections to it."""

    __slots__ = (
        "_drained",
        "address",
        "connections",
        "failure",
        "id",
        "idle",
        "in_flight",
        "is_retired",
        "limit",
        "num_answered",
    )

    def __init__(self, address: str, id: bytes = b"") -> None:
        self.address = address
        self.id = id
        self.limit = UNLIMITED  # requests at once; its capacity sets it, a full listen queue lowers it
        self.in_flight = 0
        self.num_answered = 0  # whole answers that came from it
        self.is_retired = False
        self.failure = ""  # why it ends, where that is known before its connections do
        self.idle: list[Connection] = []  # the last used last
        self.connections: set[Connection] = set()
        self._drained: Callable[[], object] | None = None

    def retire(self, drained: Callable[[], object] | None) -> None:
        """Take no more requests; `drained` is called when those in flight are done."""
        self.is_retired = True
        self._drained = drained or self._drained
        while self.idle:
            self.idle.pop().close()
        self.tell_if_drained()

    def tell_if_drained(self) -> None:
        """Call back if that was the last."""
        if self.is_retired and self.in_flight == 0 and self._drained is not None:
            drained, self._drained = self._drained, None
            drained()
