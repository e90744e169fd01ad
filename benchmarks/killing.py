"""kill -9 of an instance, a zygote or the platform itself, while callers call: how soon it serves again, who fails."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks import usage
from benchmarks.box import Box, running_box
from benchmarks.processes import Server, free_port, own_places, running

TARGET = "benchmarks.functions.nap:nap"
NAME = "nap"
NUM_CALLERS = 8
_NAP_S = 0.03
_WITHIN_S = 30.0
_AT_ONCE_S = 1.0
"""An instance that dies gives its callers an answer within that."""
_RETRY_S = 0.05
_IMPORTED_S = 1.5
"""A zygote of this age has its imports."""


@dataclass(frozen=True)
class Call:
    """One call: when it began and ended, its status, None where there was no answer, and what was said of an error."""

    began_at: float
    ended_at: float
    status: int | None
    said: str = ""
    is_cold: bool = False
    was_refused: bool = False
    """Whether nobody listened."""


@dataclass(frozen=True)
class Kill:
    """When a process was killed, and when it was gone: until then the kernel takes connections for it."""

    at: float
    gone_at: float

    def hit(self, call: Call) -> bool:
        """Whether a call that failed was under way on what was killed, and was told at once."""
        return call.began_at <= self.gone_at and self.at <= call.ended_at <= self.gone_at + _AT_ONCE_S


_NEVER = Kill(0.0, 0.0)


@dataclass
class Toll:
    """What kills did: the seconds until the first answer to a call that came after each, and the calls that failed.

    `unclear` failed without a problem that says why, or a connection that was cut; `late` are those that failed and
    had not been under way when something was killed, or were told long after.
    """

    back_s: list[float] = field(default_factory=list)
    num_calls: int = 0
    failed: list[Call] = field(default_factory=list)
    unclear: list[Call] = field(default_factory=list)
    late: list[Call] = field(default_factory=list)
    refused: list[Call] = field(default_factory=list)

    def count(self, calls: list[Call], kills: list[Kill], *, lives_on: bool) -> None:
        """Take in all calls and kills; `lives_on` tells whether the platform did, and could answer."""
        self.num_calls += len(calls)
        for call in calls:
            if call.status == 200:
                continue
            if call.was_refused and not lives_on:
                self.refused.append(call)
                continue
            self.failed.append(call)
            is_explained = call.status in (502, 503) and call.said != ""
            is_cut = call.status is None and not lives_on
            if not (is_explained or is_cut):
                self.unclear.append(call)
            if not any(kill.hit(call) for kill in kills):
                self.late.append(call)


class Load:
    """Callers that call again and again; those that are refused try again soon."""

    def __init__(self, url: str) -> None:
        self.calls: list[Call] = []
        self._url = url
        self._waiting: list[tuple[Callable[[Call], bool], asyncio.Future[Call]]] = []
        self._callers: list[asyncio.Task[None]] = []
        self._is_over = False

    @asynccontextmanager
    async def running(self, num_callers: int = NUM_CALLERS) -> AsyncIterator[None]:
        """Call for as long as the context lasts, or until `end`."""
        # A connection a call: which one of two calls a cut connection belonged to is never in doubt.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            self._callers = [asyncio.ensure_future(self._call_on(session)) for _ in range(num_callers)]
            try:
                yield
            finally:
                await self.end()

    async def end(self) -> None:
        """Call no more, and wait for the answers to come."""
        self._is_over = True
        await asyncio.gather(*self._callers)

    async def until(self, wanted: Callable[[Call], bool]) -> Call:
        """Wait for the end of a call as `wanted`, and return it. Raises TimeoutError."""
        future: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        return await asyncio.wait_for(future, _WITHIN_S)

    async def settle(self) -> None:
        """Wait until callers no longer call all at once, as they do after they have waited for one instance."""
        for _ in range(3 * len(self._callers)):
            await self.until(_answered_after(_NEVER))

    async def _call_on(self, session: aiohttp.ClientSession) -> None:
        while not self._is_over:
            call = await self._call(session)
            self.calls.append(call)
            for wanted, future in self._waiting:
                if not future.done() and wanted(call):
                    future.set_result(call)
            self._waiting = [one for one in self._waiting if not one[1].done()]
            if call.status is None:
                await asyncio.sleep(_RETRY_S)

    async def _call(self, session: aiohttp.ClientSession) -> Call:
        began_at = time.monotonic()
        try:
            async with session.post(self._url, json=_NAP_S) as response:
                body = await response.json(content_type=None)
                said = "" if response.status == 200 else str(body.get("detail", ""))
                is_cold = response.headers.get("x-cold-start") == "1"
                return Call(began_at, time.monotonic(), response.status, said, is_cold)
        except aiohttp.ClientConnectorError as error:
            return Call(began_at, time.monotonic(), None, str(error), was_refused=True)
        except (aiohttp.ClientError, ValueError) as error:
            return Call(began_at, time.monotonic(), None, f"{type(error).__name__}: {error}")


async def kill_instances(home: Path, num: int) -> Toll:
    """Kill the instance, or one of them, again and again."""

    async def kill(box: Box, load: Load, _: int) -> tuple[Kill, Call]:
        killed = await _kill((await _ready(box))[0])
        return killed, await load.until(_answered_after(killed))

    return await _kill_in_box(home, num, kill)


async def kill_zygotes(home: Path, num: int) -> Toll:
    """Kill a zygote, generic and hot in turn, and let the function start from zero: no call may fail at all."""

    async def kill(box: Box, load: Load, turn: int) -> tuple[Kill, Call]:
        zygotes = await _zygotes(box, home)
        killed = await _kill(zygotes[turn % len(zygotes)])
        woken = asyncio.ensure_future(load.until(lambda call: call.is_cold and call.ended_at > killed.gone_at))
        await box.scale(NAME, 0)
        return killed, await woken

    toll = await _kill_in_box(home, num, kill)
    toll.late = list(toll.failed)
    return toll


async def kill_platforms(home: Path, num: int) -> Toll:
    """Kill the platform and start it again at once, as a service manager does; it brings back what it served."""
    port, toll, kills = free_port(), Toll(), list[Kill]()
    load = Load(f"http://127.0.0.1:{port}/f/{NAME}/")
    async with running_box(home, TARGET):
        pass  # it is made ready, and remembered
    async with load.running():
        for turn in range(num + 1):
            async with _platform(home, port, turn) as server:
                back = await load.until(_answered_after(kills[-1] if kills else _NEVER))
                if kills:
                    toll.back_s.append(back.ended_at - kills[-1].at)
                if turn < num:
                    await load.settle()
                    kills.append(await _kill(server.process.pid))
                else:
                    await load.end()
    toll.count(load.calls, kills, lives_on=False)
    return toll


@asynccontextmanager
async def _platform(home: Path, port: int, turn: int) -> AsyncIterator[Server]:
    command = ["-m", "faas.cli.main", "up", "--port", str(port)]
    async with running("faas up", command, home / f"up-{turn}.log", **own_places(home)) as server:
        yield server


async def _kill_in_box(home: Path, num: int, kill: Callable[[Box, Load, int], Awaitable[tuple[Kill, Call]]]) -> Toll:
    toll, kills = Toll(), list[Kill]()
    async with running_box(home, TARGET) as box:
        load = Load(box.url_of(NAME))
        async with load.running():
            for turn in range(num):
                await load.settle()
                killed, back = await kill(box, load, turn)
                kills.append(killed)
                toll.back_s.append(back.ended_at - killed.at)
    toll.count(load.calls, kills, lives_on=True)
    return toll


async def _ready(box: Box) -> list[int]:
    return [made["pid"] for made in await box.instances(NAME) if made["state"] == "ready"]


async def _zygotes(box: Box, home: Path) -> list[int]:
    """Return the zygotes that have their imports, once there is one.

    Of those that have lost their parent only the environment tells. One that is killed while it imports counts as one
    that cannot import, and is started again after growing pauses.
    """
    async with asyncio.timeout(_WITHIN_S):
        while True:
            instances = {made["pid"] for made in await box.instances(NAME)}
            found = set(usage.with_variable("FAAS_HOME", str(home))) - instances - {box.server.process.pid}
            found = {pid for pid in found if usage.age_s(pid) >= _IMPORTED_S}
            if found:
                return sorted(found)
            await asyncio.sleep(_RETRY_S)


def _answered_after(killed: Kill) -> Callable[[Call], bool]:
    return lambda call: call.status == 200 and call.began_at > killed.gone_at


async def _kill(pid: int) -> Kill:
    """Kill a process, and wait until it is gone."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    pidfd = os.pidfd_open(pid)
    try:
        at = time.monotonic()
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        loop.add_reader(pidfd, gone.set)
        await gone.wait()
        return Kill(at, time.monotonic())
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
