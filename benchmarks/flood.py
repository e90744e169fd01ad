"""A closed loop as lean as can be, which keeps an echo server busy: what is then measured is the server at work.

`loadgen` takes more CPU for a request than such a server does, so that the server would mostly wait for it.
"""

import asyncio
import json
import re
from dataclasses import dataclass
from statistics import median
from time import monotonic
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from benchmarks.load import UnansweredError
from benchmarks.served import Served

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 "
_HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Flood:
    """What came of it. `cpu_s` is what the server's processes used meanwhile; the rest is of the latencies."""

    num_answers: int
    elapsed_s: float
    cpu_s: float
    p50_us: float
    p99_us: float

    @property
    def per_s(self) -> float:
        """Answers a second."""
        return self.num_answers / self.elapsed_s

    @property
    def cpu_us_each(self) -> float:
        """CPU microseconds of the server for each answer."""
        return self.cpu_s * 1e6 / self.num_answers


class _Caller(asyncio.Protocol):
    """Sends the same request again as soon as the answer to the last has come, until its time is up."""

    def __init__(self, request: bytes, ends_at: float) -> None:
        self.latencies_s: list[float] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._ends_at = ends_at
        self._received = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not is_whole(self._received):
            return
        now = monotonic()
        self.latencies_s.append(now - self._sent_at)
        received, self._received = self._received, b""
        if not received.startswith(_OK):
            self._end(UnansweredError(f"answered with {received[:1000]!r}"))
        elif now >= self._ends_at:
            self._end(None)
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or UnansweredError("the server closed a connection"))

    def _send(self) -> None:
        assert self._transport is not None
        self._sent_at = monotonic()
        self._transport.write(self._request)

    def _end(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None) if error is None else self.ended.set_exception(error)
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def is_whole(answer: bytes) -> bool:
    """Whether this is all of an answer that states its length."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and len(body) == int(length[1] if length else 0)


def request(place: SplitResult, body: Any) -> bytes:
    """Return a POST of `body` as JSON to the URL `place`."""
    content = json.dumps(body).encode()
    return _HEAD.format(path=place.path, host=place.netloc, length=len(content)).encode() + content


async def flood(served: Served, body: Any, num_callers: int, duration_s: float) -> Flood:
    """Have callers post `body` as JSON, each again once it is answered.

    Raises UnansweredError, OSError, TimeoutError.
    """
    content = request(urlsplit(served.url), body)
    began_at, before_s = monotonic(), served.server.cpu_s
    callers = [_Caller(content, began_at + duration_s) for _ in range(num_callers)]
    try:
        async with asyncio.timeout(duration_s + _WITHIN_S), asyncio.TaskGroup() as running:
            for caller in callers:
                running.create_task(_call(caller, served))
    except* (UnansweredError, OSError) as failed:
        raise failed.exceptions[0] from None
    finally:
        for caller in callers:
            caller.close()
    elapsed_s, cpu_s = monotonic() - began_at, served.server.cpu_s - before_s
    latencies_us = sorted(latency_s * 1e6 for caller in callers for latency_s in caller.latencies_s)
    slowest = latencies_us[int(0.99 * (len(latencies_us) - 1))]
    return Flood(len(latencies_us), elapsed_s, cpu_s, median(latencies_us), slowest)


async def _call(caller: _Caller, served: Served) -> None:
    loop, place = asyncio.get_running_loop(), urlsplit(served.url)
    await loop.create_connection(lambda: caller, place.hostname or "", place.port or 80)
    await caller.ended
