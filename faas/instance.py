"""One instance: a process that serves one revision of one function on a listening socket that it was given.

`main` is what a worker of the warm pool runs. Its `Order` says what to be; over the control socket it tells the
platform what it is doing, one JSON line an event. It ends when the platform closes its direction of that socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

import msgspec

from faas import modules, parked, revision, settings
from faas.errors import FaasError, named
from faas.instance_messages import Event, Failed, Follow, Followed, Imported, Leaving, Order, Ready
from faas.revision import Loaded
from faas.server.serve import Stop

_ORDERS: Final = msgspec.json.Decoder(Order)
"""Made with the imports, in a zygote: it takes half a millisecond."""
LET_GO_WITHIN_S = 1.0
"""How long an instance that got a signal waits for the platform to let it go."""


def main(payload: bytes, fds: dict[str, int]) -> int:
    """Be the instance that `payload` (an `Order` as JSON) says. Returns the exit status.

    `fds` holds "listen", a listening socket, and "control", a connected stream socket.
    """
    entered_at = time.monotonic()
    order = _ORDERS.decode(payload)
    control = socket.socket(fileno=fds["control"])
    listen = socket.socket(fileno=fds["listen"])
    tell = _teller(control)
    phases = {"fork": entered_at - order.ordered_at}
    try:
        loaded = revision.load(order.revision)
        phases["import"] = time.monotonic() - entered_at
        with parked.runner() as runner:
            return runner.run(_Instance(order, loaded, phases, tell).run(listen, control))
    except Exception as error:
        tell(Failed(named(error)))
        raise


class _Instance:
    def __init__(self, order: Order, loaded: Loaded, phases: dict[str, float], tell: Callable[[Event], None]) -> None:
        self._order = order
        self._loaded = loaded
        self._phases = phases
        self._tell = tell
        self._runtime = loaded.server.runtime
        self._runtime.begin(
            order.instance_id, phases=phases, on_recycle=lambda: tell(Leaving()), on_stuck=self._give_up
        )
        self._num_known = 0

    async def run(self, listen: socket.socket, control: socket.socket) -> int:
        """Start, serve until told to stop, and tell what calls have imported."""
        stop = _Stop(self._tell)
        watch = asyncio.ensure_future(self._hear(control, stop))
        try:
            status = await self._loaded.server.serve(
                [listen],
                load=lambda: self._loaded.begin(self._phases),
                grace_s=self._order.grace_s,
                lame_duck_s=settings.read().lame_duck_s or 0.0,
                num_spared=self._num_spared(),
                on_ready=self._ready,
                stop=stop,
            )
            if self._runtime.state == "failed":
                self._tell(Failed(self._runtime.reason))
            return status
        finally:
            watch.cancel()
            if self._num_known and len(sys.modules) > self._num_known:
                late = set(list(sys.modules)[self._num_known :])
                self._tell(Imported([name for name in modules.installed() if name in late]))

    def _num_spared(self) -> int:
        """Return how many of the example inputs, from the first on, need not run here."""
        function = self._runtime.function
        if self._loaded.rehearsed:
            return len(function.spec.warmup or ())
        if not self._loaded.keeps_state or any(endpoint.variants for endpoint in function.endpoints):
            return 0  # they show that setup() has worked, or how long each variant takes
        return self._order.num_spared

    def _give_up(self, why: str) -> None:
        """Ask to be replaced: a handler blocks all calls, and nothing can stop it but the end of the process."""
        self._tell(Failed(why))
        self._tell(Leaving())

    async def _hear(self, control: socket.socket, stop: _Stop) -> None:
        """Hear what the platform says, until it has closed its direction of the socket, or is gone."""
        control.setblocking(False)
        loop, pending, following = asyncio.get_running_loop(), b"", set[asyncio.Future[None]]()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(control, 4096):
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    task = asyncio.ensure_future(self._follow(msgspec.json.decode(line, type=Follow)))
                    following.add(task)
                    task.add_done_callback(following.discard)
        stop.tell_once()

    async def _follow(self, asked: Follow) -> None:
        versions = self._runtime.versions
        if versions is None:
            self._tell(Followed(asked.number, failure=f"{self._runtime.function.name} has no versions"))
            return
        try:
            await versions.follow()
        except FaasError as error:
            self._tell(Followed(asked.number, versions.overview(), str(error)))
        else:
            self._tell(Followed(asked.number, versions.overview()))

    def _ready(self) -> None:
        self._num_known = len(sys.modules)  # their names alone would be touched, and so copied, all over the heap
        self._tell(Ready(self._phases))


def _teller(control: socket.socket) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        with contextlib.suppress(OSError):  # the platform is gone: the watch on this socket ends the instance
            control.sendall(msgspec.json.encode(event) + b"\n")

    return tell


class _Stop(Stop):
    """A signal asks the platform to be let go: it sends no more calls, lets those in flight end, and then says stop.

    Whoever sent the signal thereby costs no caller anything. A platform that does not answer is not waited for.
    """

    def __init__(self, tell_platform: Callable[[Event], None]) -> None:
        super().__init__()
        self._tell_platform = tell_platform
        self._asked = False

    def tell(self, signum: int = 0) -> None:
        """Say it, or ask for it where it came as a first signal."""
        if signum and not self._asked:
            self._asked = True
            self._tell_platform(Leaving())
            asyncio.get_running_loop().call_later(LET_GO_WITHIN_S, self.tell_once)
        else:
            super().tell(signum)

    def tell_once(self) -> None:
        """Say it, unless it has been said."""
        if not self.told.is_set():
            super().tell()
