"""A worker forked ahead of need, seen from the client."""

import asyncio
import logging
import socket

from warmpool import launch, protocol
from warmpool.process import Worker
from warmpool.protocol import Request

SETTLE_WITHIN_S = 60.0
"""What a parked worker does ahead, such as creating a device context, takes a second; longer than this, it hangs."""

_log = logging.getLogger(__name__)


class Parked:
    """Waits for its request at the other end of `sock`, once it has settled where it `settles`."""

    def __init__(self, worker: Worker, sock: socket.socket, *, settles: bool = False) -> None:
        self.worker = worker
        self._sock = sock
        self._sock.setblocking(False)
        self._adopting = False
        self._settling = asyncio.ensure_future(self._settle()) if settles else None
        worker.on_end(self._discard)

    async def settled(self) -> None:
        """Wait until it has done what there is to be done ahead, or has ended."""
        if self._settling is not None:
            await asyncio.shield(self._settling)

    async def adopt(self, request: Request) -> Worker:
        """Give the worker its request and wait until it has it. Raises BrokenPipeError when it died while parked."""
        self._adopting = True
        try:
            await self.settled()
            await launch.adopt(self._sock, request)
            if not await asyncio.get_running_loop().sock_recv(self._sock, len(protocol.ADOPTED)):
                raise BrokenPipeError(f"parked worker {self.worker.pid} has died")
        except ConnectionResetError as error:
            raise BrokenPipeError(f"parked worker {self.worker.pid} has died") from error
        except BaseException:
            self.worker.kill()
            raise
        finally:
            self._close()
        self.worker.how = "parked"
        return self.worker

    async def _settle(self) -> None:
        try:
            async with asyncio.timeout(SETTLE_WITHIN_S):
                await asyncio.get_running_loop().sock_recv(self._sock, len(protocol.SETTLED))
        except TimeoutError:
            _log.warning("parked worker %d did not settle in %g s and was killed", self.worker.pid, SETTLE_WITHIN_S)
            self.worker.kill()
        except ConnectionResetError:
            pass  # it has died, as who adopts it is told
        finally:
            self._settling = None
            if self.worker.status is not None:
                self._discard()

    def _discard(self) -> None:
        if not self._adopting and self._settling is None:  # a socket is not closed while somebody waits on it
            self._sock.close()

    def _close(self) -> None:
        if self._settling is not None:  # whoever adopted it gave up
            self._settling.add_done_callback(lambda _: self._sock.close())
        else:
            self._sock.close()
