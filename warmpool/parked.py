"""A worker forked ahead of need, seen from the client."""

import asyncio
import socket

from warmpool import launch, protocol
from warmpool.process import Worker
from warmpool.protocol import Request


class Parked:
    """Waits for its request at the other end of `sock`."""

    def __init__(self, worker: Worker, sock: socket.socket) -> None:
        self.worker = worker
        self._sock = sock
        self._sock.setblocking(False)
        self._adopting = False
        worker.on_end(self._discard)

    async def adopt(self, request: Request) -> Worker:
        """Give the worker its request and wait until it has it. Raises BrokenPipeError when it died while parked."""
        self._adopting = True
        try:
            await launch.adopt(self._sock, request)
            if not await asyncio.get_running_loop().sock_recv(self._sock, len(protocol.ADOPTED)):
                raise BrokenPipeError(f"parked worker {self.worker.pid} has died")
        except ConnectionResetError as error:
            raise BrokenPipeError(f"parked worker {self.worker.pid} has died") from error
        except BaseException:
            self.worker.kill()
            raise
        finally:
            self._sock.close()
        self.worker.how = "parked"
        return self.worker

    def _discard(self) -> None:
        if not self._adopting:  # a socket is not closed while somebody waits on it
            self._sock.close()
