"""A zygote: a process with one thread that does the imports once and then forks workers, one request after another.

Run as `python -m warmpool.zygote SOCKET LIFELINE` by `client`. It reads `Prepare`, imports, answers `Ready`, and serves
`Fork` until its client hangs up; it reaps its workers by pidfd and reports their ends. It has no event loop, no signal
handler and no thread: whatever it had, every worker would have.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn

from warmpool import descriptors, hazards, lifeline, protocol, threads, worker
from warmpool.errors import ProtocolError


class Zygote:
    """The state of the serving loop, of which a forked worker uses only what `_be_worker` names."""

    def __init__(self, sock: socket.socket, lifeline_fd: int) -> None:
        self._sock = sock
        self._own_fds = {sock.fileno(), lifeline_fd}
        self._workers: dict[int, int] = {}  # pidfd -> id of the fork
        self._imports_fds: list[int] = []
        self._setters: dict[str, list[threads.Setter]] = {}
        self._remembered: dict[str, str | None] = {}
        self._hazard: str | None = None

    def prepare(self) -> None:
        """Do the imports and say so; a module that cannot be imported is reported and left out."""
        message, fds = protocol.receive(self._sock, protocol.ZYGOTE_INBOX)
        if not isinstance(message, protocol.Prepare):
            raise ProtocolError(f"a zygote's first message is Prepare, not {type(message).__name__}")
        started_at = time.monotonic()
        gc.disable()
        sys.path[:0] = message.sys_path
        self._remembered = message.remembered
        failed = _import_all(protocol.from_memfd(fds[0]).decode().split())
        self._setters = threads.find_setters()
        self._imports_fds = descriptors.opened_by_imports(self._own_fds)
        self._hazard = hazards.after_imports(self._imports_fds)
        gc.collect()
        gc.freeze()
        hazard = self._hazard or hazards.before_fork()
        protocol.send(self._sock, protocol.Ready(failed=failed, hazard=hazard, import_s=time.monotonic() - started_at))

    def serve(self) -> None:
        """Fork and reap until the client hangs up."""
        with select.epoll() as epoll:
            epoll.register(self._sock.fileno(), select.EPOLLIN)
            while True:
                for fd, _ in epoll.poll():
                    if fd != self._sock.fileno():
                        epoll.unregister(fd)
                        self._reap(fd)
                        continue
                    try:
                        message, fds = protocol.receive(self._sock, protocol.ZYGOTE_INBOX)
                    except EOFError:
                        return
                    if isinstance(message, protocol.Fork) and (pidfd := self._fork(message, fds)) is not None:
                        epoll.register(pidfd, select.EPOLLIN)

    def _fork(self, message: protocol.Fork, fds: Sequence[int]) -> int | None:
        why = self._hazard or hazards.before_fork()
        if why is not None:
            protocol.close_all(fds)
            protocol.send(self._sock, protocol.Refused(id=message.id, why=why))
            return None
        sys.stdout.flush()
        sys.stderr.flush()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        started_at = time.monotonic()
        try:
            pid = os.fork()
            if pid == 0:
                self._be_worker(message, fds)
        except OSError as error:
            protocol.send(self._sock, protocol.Refused(id=message.id, why=f"the zygote could not fork: {error}"))
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            protocol.close_all(fds)
        pidfd = os.pidfd_open(pid)
        self._workers[pidfd] = message.id
        protocol.send(self._sock, protocol.Forked(id=message.id, pid=pid, started_at=started_at), [pidfd])
        return pidfd

    def _be_worker(self, message: protocol.Fork, fds: Sequence[int]) -> NoReturn:
        status = 1
        try:
            lifeline_fd, *own = fds
            worker.become_worker(lifeline_fd, own, self._imports_fds)
            _restore(self._remembered)
            if message.request is None:
                request = worker.await_request(own[0])
            else:
                request = protocol.unpack(message.request, own, message.payload_in_memfd)
            status = worker.run(request, self._setters)
        except BaseException:
            traceback.print_exc()
        finally:
            worker.leave(status)

    def _reap(self, pidfd: int) -> None:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        assert ended is not None
        os.close(pidfd)
        status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        protocol.send(self._sock, protocol.Exited(id=self._workers.pop(pidfd), status=status))


def main() -> NoReturn:
    """Be a zygote until the client hangs up."""
    sock, lifeline_fd = int(sys.argv[1]), int(sys.argv[2])
    lifeline.hold(lifeline_fd)
    zygote = Zygote(socket.socket(fileno=sock), lifeline_fd)
    try:
        zygote.prepare()
        zygote.serve()
    except (EOFError, BrokenPipeError):
        pass
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _import_all(modules: Sequence[str]) -> dict[str, str]:
    failed: dict[str, str] = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


def _restore(remembered: Mapping[str, str | None]) -> None:
    for name, value in remembered.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


if __name__ == "__main__":
    main()
