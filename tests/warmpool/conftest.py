"""Real zygotes and workers for the tests of `warmpool`, on asyncio and on uvloop, and proof that each ends."""

import asyncio
import gc
import json
import os
import secrets
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from warmpool.client import Zygote
from warmpool.environment import Environment
from warmpool.process import Worker
from warmpool.protocol import Request

PROGRAMS = Path(__file__).parent / "programs"
MARK = "WARMPOOL_TEST"

Start = Callable[[Request], Awaitable[Worker]]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True, scope="session")
def _uvloop_has_its_own_descriptors() -> None:
    """The first loop of uvloop opens a pipe for the life of the process."""
    uvloop.new_event_loop().close()


@pytest.fixture(autouse=True, scope="module")
def mark() -> Iterator[str]:
    """Every process a test starts carries this variable, and none of a module's may live on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, secrets.token_hex(8))
        mark = f"{MARK}={os.environ[MARK]}"
        yield mark
    assert marked(mark) == []


@pytest.fixture(autouse=True)
def _nothing_is_left(mark: str) -> Iterator[None]:
    """A test leaves no process, no zombie and no descriptor that was not there before it."""
    processes, descriptors = marked(mark), open_descriptors()
    yield
    assert marked(mark) == processes
    assert zombies_of(os.getpid()) == []
    if open_descriptors() > descriptors:
        gc.collect()  # what an earlier test dropped may hold one
    assert open_descriptors() <= descriptors


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def zombies_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal():
                state, of = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if state == "Z" and int(of) == parent:
                    found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def environment() -> Callable[..., Environment]:
    """Return a maker of environments that find the programs of these tests."""

    def make(*modules: str, faked: bool = False, **options: Any) -> Environment:
        folders = [PROGRAMS / "faked", PROGRAMS] if faked else [PROGRAMS]
        return Environment(modules=modules, sys_path=tuple(map(str, folders)), **options)

    return make


@pytest.fixture
async def start(environment) -> AsyncIterator[Callable[..., Awaitable[Zygote]]]:
    """Return what starts a zygote that has imported the modules given; it ends with the test, its workers too."""
    zygotes = []

    async def start(*modules: str, **options: Any) -> Zygote:
        zygotes.append(await Zygote.start(environment(*modules), **options))
        return zygotes[-1]

    yield start
    for zygote in zygotes:
        await zygote.stop(stop_workers=True, grace_s=0.2)


@pytest.fixture(scope="module")
async def zygote(environment) -> AsyncIterator[Zygote]:
    """A zygote that the tests of a module share, and leave as it is."""
    zygote = await Zygote.start(environment("entries"))
    yield zygote
    await zygote.stop(stop_workers=True, grace_s=0.2)


@dataclass(frozen=True)
class Run:
    worker: Worker
    status: int
    output: bytes

    @property
    def answer(self) -> Any:
        return json.loads(self.output)


@pytest.fixture
def run() -> Callable[..., Awaitable[Run]]:
    """Return what starts a worker, collects what it writes to `out`, and waits for its end."""

    async def run(start: Start, entry: str, payload: bytes = b"", **options: Any) -> Run:
        reader, writer = os.pipe()
        try:
            try:
                worker = await start(Request(entry=entry, payload=payload, fds={"out": writer}, **options))
            finally:
                os.close(writer)
            output = await asyncio.to_thread(_read_all, reader)
            return Run(worker, await worker.wait(), output)
        finally:
            os.close(reader)

    return run


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


@pytest.fixture
def up() -> Callable[..., Awaitable[Worker]]:
    """Return what starts a worker and waits until its entry runs (it writes `up`)."""

    async def up(start: Start, entry: str, **options: Any) -> Worker:
        reader, writer = os.pipe()
        try:
            try:
                worker = await start(Request(entry=entry, fds={"out": writer}, **options))
            finally:
                os.close(writer)
            assert await asyncio.to_thread(os.read, reader, 2) == b"up"
            return worker
        finally:
            os.close(reader)

    return up


@pytest.fixture
def ended() -> Callable[[int, float], bool]:
    """Return what waits until the process behind a pidfd has ended, and tells whether it did."""

    def ended(pidfd: int, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    return ended
