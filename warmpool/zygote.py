"""A zygote: a process with one thread that does the imports once and then forks workers, one request after another.

Started by `launch` with the numbers of its socket and its lifeline as arguments, it reads `Prepare`, imports, answers
`Ready`, and serves `Fork` until its client hangs up; it reaps its workers by pidfd and reports their ends. It has no
event loop, no signal handler and no thread: whatever it had, every worker would have.

A *hot* zygote is one of its workers that becomes a zygote in turn (`inherit`): it shares the imports, adds what a
preload makes, and forks workers that have both.
"""

import contextlib
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
from typing import NamedTuple, NoReturn

from warmpool import (
    descriptors,
    fresh,
    generators,
    hazards,
    holes,
    hugepages,
    lifeline,
    orphans,
    protocol,
    selftest,
    threads,
    worker,
)
from warmpool.errors import ForkRefused, ProtocolError


class _Child(NamedTuple):
    """A process that is reaped here. `fork` is None of one that was not forked here."""

    pid: int
    fork: int | None
    is_zygote: bool = False


class Zygote:
    """The state of the serving loop, of which a forked worker uses only what `_be_worker` names."""

    def __init__(self, sock: socket.socket, lifeline_fd: int) -> None:
        self._sock = sock
        self._own_fds = {sock.fileno(), lifeline_fd}
        self._children: dict[int, _Child] = {}  # by pidfd
        self._helpers: set[int] = set()  # the processes that imports have started
        self._opened_by_imports: list[int] = []
        self._remembered: dict[str, str | None] = {}
        self._blamed: str | None = None  # the first import after which a fork was not safe
        self._tested = False
        self._unfit: str | None = None

    def prepare(self) -> None:
        """Do the imports and say so; a module that cannot be imported is reported and left out."""
        message, fds = protocol.receive(self._sock, protocol.ZYGOTE_INBOX)
        if not isinstance(message, protocol.Prepare):
            raise ProtocolError(f"a zygote's first message is Prepare, not {type(message).__name__}")
        started_at = time.monotonic()
        sys.path[:0] = message.sys_path
        with generators.noting_unseeded():
            failed = self._import_all(protocol.from_memfd(fds[0]).decode().split())
        self._settle(message.remembered)
        hugepages.collapse_heap()  # before there is a worker, which would be left with the small pages for itself
        hazard = self._why_not_fork()
        ready = protocol.Ready(failed=failed, hazard=hazard, import_s=time.monotonic() - started_at)
        protocol.send(self._sock, ready)

    def inherit(self, message: protocol.Inherit) -> None:
        """Import what is missing and run the preload in this process, which was forked from a zygote, and say so."""
        started_at = time.monotonic()
        gc.disable()
        with generators.noting_unseeded(), threads.noting_torch() as chosen:
            failed = self._import_all(message.modules)
            why = _failure_of(message)
        self._settle(message.remembered, torch_threads=chosen[-1] if chosen else None)
        self._unfit = why or hazards.after_preload(self._opened_by_imports)
        self._tested = self._unfit is not None
        ready = protocol.Ready(failed=failed, hazard=self._why_not_fork(), import_s=time.monotonic() - started_at)
        protocol.send(self._sock, ready)

    def _settle(self, remembered: dict[str, str | None], *, torch_threads: int | None = None) -> None:
        """Come to rest: what is here now is what every worker begins with."""
        fresh.settle()
        self._remembered = remembered | threads.chosen(os.environ)
        self._limits = threads.Limits.find(torch_threads)
        self._opened_by_imports = descriptors.opened_by_imports(self._own_fds)
        self._helpers = orphans.children()
        gc.collect()
        holes.fill()
        gc.freeze()

    def serve(self) -> None:
        """Fork and reap until the client hangs up."""
        with select.epoll() as epoll:
            epoll.register(self._sock.fileno(), select.EPOLLIN)
            while True:
                for fd, _ in epoll.poll():
                    if fd != self._sock.fileno():
                        epoll.unregister(fd)
                        self._reap(fd, epoll)
                        continue
                    try:
                        message, fds = protocol.receive(self._sock, protocol.ZYGOTE_INBOX)
                    except EOFError:
                        return
                    if isinstance(message, protocol.Fork) and (pidfd := self._fork(message, fds)) is not None:
                        epoll.register(pidfd, select.EPOLLIN)

    def _import_all(self, modules: Sequence[str]) -> dict[str, str]:
        """Import the modules in order; return why, for each that could not be."""
        failed: dict[str, str] = {}
        for name in modules:
            if name in sys.modules:
                continue
            try:
                importlib.import_module(name)
            except BaseException as error:
                failed[name] = f"{type(error).__name__}: {error}"
            if self._blamed is None and hazards.before_fork() is not None:
                self._blamed = name
        return failed

    def _fork(self, message: protocol.Fork, fds: Sequence[int]) -> int | None:
        """Fork a worker, which tells the client itself; return its pidfd, or None when there is no worker."""
        try:
            protocol.check_count(fds, message.num_fds)
            why = self._why_not_fork()
            if why is not None:
                raise ForkRefused(why)
            _flush()
            started_at = time.monotonic()
            pid = os.fork()
            if pid == 0:
                self._be_worker(message, fds, started_at)
        except (ForkRefused, ProtocolError, OSError) as error:
            protocol.send(self._sock, protocol.Refused(id=message.id, why=str(error)))
            return None
        finally:
            protocol.close_all(fds)
        pidfd = os.pidfd_open(pid)
        becomes_zygote = message.request is not None and message.request.entry == protocol.INHERIT_ENTRY
        self._children[pidfd] = _Child(pid, message.id, becomes_zygote)
        return pidfd

    def _why_not_fork(self) -> str | None:
        """Return the reason against a fork now, or None. What the imports did is looked into once, when it can be."""
        why = hazards.before_fork()
        if why is None and not self._tested:
            try:
                self._unfit = hazards.after_imports(self._opened_by_imports) or selftest.fork_and_check(self._limits)
            except OSError as error:
                return f"a worker could not be forked as a test: {error}"
            self._tested = True
        if why is not None and self._blamed is not None:
            why += f" (since the import of {self._blamed})"
        return why or self._unfit

    def _be_worker(self, message: protocol.Fork, fds: Sequence[int], started_at: float) -> NoReturn:
        status = 1
        try:
            lifeline_fd, *own = fds
            worker.become_worker(lifeline_fd, [*own, self._sock.fileno()], self._opened_by_imports)
            self._announce(message.id, started_at)
            _restore(self._remembered)
            if message.request is None:
                request = worker.await_request(own[0], message.park)
            else:
                request = protocol.unpack(message.request, own, message.payload_in_memfd)
            status = worker.run(request, self._limits)
        except BaseException:
            traceback.print_exc()
        finally:
            worker.leave(status)

    def _announce(self, id_: int, started_at: float) -> None:
        """Tell the client, from the worker itself, before it runs anything.

        Whatever ends the zygote meanwhile, the client has been told by then, or has hung up, and this worker ends:
        there is none that runs while the client starts another in its place.
        """
        pidfd = os.pidfd_open(os.getpid())
        try:
            protocol.send(self._sock, protocol.Forked(id=id_, pid=os.getpid(), started_at=started_at), [pidfd])
        except BrokenPipeError:
            os._exit(1)
        os.close(pidfd)
        self._sock.close()

    def _reap(self, pidfd: int, epoll: select.epoll) -> None:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        assert ended is not None
        os.close(pidfd)
        child = self._children.pop(pidfd)
        if child.fork is not None:
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            protocol.send(self._sock, protocol.Exited(id=child.fork, status=status))
        self._take_over(epoll, are_workers=child.is_zygote)

    def _take_over(self, epoll: select.epoll, *, are_workers: bool) -> None:
        """End what a worker has left behind; the workers of a hot zygote live on. All are reaped here."""
        known = self._helpers.union(child.pid for child in self._children.values())
        for pid in orphans.children() - known:
            with contextlib.suppress(OSError):  # no descriptor is left: next time
                pidfd = os.pidfd_open(pid)
                self._children[pidfd] = _Child(pid, None)
                epoll.register(pidfd, select.EPOLLIN)
                if not are_workers:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def main() -> NoReturn:
    """Be a zygote until the client hangs up."""
    sock_fd, lifeline_fd = map(int, sys.argv[1:])
    del sys.argv[1:]
    orphans.adopt()
    lifeline.hold(lifeline_fd)
    sock = socket.socket(fileno=sock_fd)
    sock.set_inheritable(False)
    zygote = Zygote(sock, lifeline_fd)
    try:
        zygote.prepare()
        zygote.serve()
    except (EOFError, BrokenPipeError):
        pass
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def inherit(payload: bytes, fds: dict[str, int]) -> int:
    """Be a hot zygote until the client hangs up: the entry of a worker that a zygote has forked to be one as well.

    `payload` is an `Inherit`, `fds` holds "zygote", the socket to the client. Returns the exit status.
    """
    os.environ.update(threads.ONE_THREAD)
    sock = socket.socket(fileno=fds["zygote"])
    sock.set_inheritable(False)
    zygote = Zygote(sock, lifeline.own())
    with contextlib.suppress(EOFError, BrokenPipeError):
        zygote.inherit(protocol.INHERIT.decode(payload))
        zygote.serve()
    return 0


def _failure_of(message: protocol.Inherit) -> str | None:
    """Run the preload; return why it failed, if it did."""
    try:
        worker.resolve(message.entry)(message.payload)
    except BaseException as error:
        traceback.print_exc()
        return f"{message.entry} failed: {type(error).__name__}: {error}"
    return None


def _flush() -> None:
    """Leave nothing in the buffers that a worker would write a second time."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    worker.flush_c()


def _restore(remembered: Mapping[str, str | None]) -> None:
    for name, value in remembered.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
