"""Servers under measurement: started as groups of processes of their own, awaited until they answer, and ended."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp

from benchmarks import usage

ROOT = Path(__file__).resolve().parents[1]
_LOOK_EVERY_S = 0.05  # no event tells an outsider that a server has become ready
_STOP_WITHIN_S = 10.0


class ServerError(Exception):
    """A server ended before it was ready, or was not ready in time; the message holds the end of what it printed."""


@dataclass(frozen=True)
class Server:
    """A running server: the process that was started, and whatever that started since."""

    name: str
    process: Process
    log: Path

    @property
    def pids(self) -> list[int]:
        """The server's processes as they are now."""
        return usage.tree(self.process.pid)

    @property
    def cpu_s(self) -> float:
        """The CPU seconds that the server has used so far."""
        return usage.cpu_s(self.pids)

    async def until_answers(self, url: str, body: Any = None, *, within_s: float = 300.0) -> None:
        """Wait until `url` answers 200, to a POST of `body` as JSON where there is one.

        Raises ServerError when the server ends first, or does not answer so within `within_s`.
        """
        try:
            async with asyncio.timeout(within_s), aiohttp.ClientSession() as session:
                while not await _answers(session, url, body):
                    if self.process.returncode is not None:
                        raise ServerError(f"{self.name} ended with status {self.process.returncode}: {self.tail()}")
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            raise ServerError(f"{self.name} does not answer at {url} within {within_s:g} s: {self.tail()}") from None

    def tail(self) -> str:
        """Return the last lines that the server printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:]) or "it printed nothing"


async def _answers(session: aiohttp.ClientSession, url: str, body: Any) -> bool:
    try:
        async with session.get(url) if body is None else session.post(url, json=body) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def running(
    name: str, command: Sequence[str], log: Path, *, program: str | Path = sys.executable, **variables: str
) -> AsyncIterator[Server]:
    """Run this Python, or another program, with the arguments `command` while the context lasts, output into `log`.

    At the end it gets SIGTERM, and what is left of its processes after 10 seconds is killed.
    """
    with log.open("wb") as output:
        process = await _start((program, *command), variables, output, output)
    try:
        yield Server(name, process, log)
    finally:
        await _end(process)


@asynccontextmanager
async def script(*arguments: str, **variables: str) -> AsyncIterator[Process]:
    """Run this Python with `arguments`, which ends by itself, its output in a pipe; leaving the context kills it."""
    process = await _start((sys.executable, *arguments), variables, PIPE, DEVNULL)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _start(
    command: Sequence[str | Path], variables: Mapping[str, str], stdout: int | BinaryIO, stderr: int | BinaryIO
) -> Process:
    """Start a command in a session of its own: an interrupt from the terminal comes to this process alone."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **variables},
        start_new_session=True,
    )


async def _end(process: Process) -> None:
    """End a server, and then whatever of its processes is left: some servers leave their workers behind."""
    with _pidfds(usage.tree(process.pid)) as pidfds:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_WITHIN_S):
                await process.wait()
        with _pidfds(usage.tree(process.pid)) as started_since:
            for pidfd in (*pidfds, *started_since):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await process.wait()
            for pidfd in (*pidfds, *started_since):
                await _ended(pidfd)


@contextmanager
def _pidfds(pids: Iterable[int]) -> Iterator[list[int]]:
    """Yield a descriptor for each process that lives. The number of one that has ended may be used again, this not."""
    found: list[int] = []
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                found.append(os.pidfd_open(pid))
        yield found
    finally:
        for pidfd in found:
            os.close(pidfd)


async def _ended(pidfd: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)


def own_places(home: Path) -> dict[str, str]:
    """Return the variables that keep all files and sockets of a server below `home`."""
    return {"FAAS_HOME": str(home), "TMPDIR": str(home)}


def free_port() -> int:
    """Return a TCP port that is free on the loopback interface at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
