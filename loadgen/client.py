"""One request over HTTP, timed: keep-alive connections, no redirects, no cookies, bodies as they come."""

import errno
import math
from collections.abc import Iterable
from time import monotonic
from types import TracebackType

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from loadgen.events import MEDIA_TYPE, EventReader
from loadgen.sample import Outcome, Sample
from loadgen.workload import Workload

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)
_HELD_BYTES = 1 << 20  # of an answer that is read at once
_HEAD_LINE_BYTES = 1 << 20  # of an answer's longest header, which is no reason to call the server broken
_LARGEST_BATCH = 1_000_000  # a header that says more is not believed


class Client:
    """Sends the requests of a workload; an asynchronous context manager that owns its connections.

    As many connections as there are requests in flight: what limits them is the load, not the client.
    """

    def __init__(self, workload: Workload, timeout_s: float) -> None:
        self._method = workload.method
        self._url = URL(workload.url)
        self._headers = CIMultiDict(workload.headers)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout_s, ceil_threshold=math.inf),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            auto_decompress=False,
            max_line_size=_HEAD_LINE_BYTES,
            max_field_size=_HEAD_LINE_BYTES,
        )

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def send(self, body: bytes | None, planned_at: float | None = None) -> Sample:
        """Send one request and return its sample; due now unless `planned_at` says when it was.

        Every failure of the request is an outcome of the sample; only cancellation is raised.
        """
        sent_at = monotonic()
        planned_at = sent_at if planned_at is None else planned_at
        events: EventReader | None = None
        try:
            async with self._session.request(
                self._method, self._url, data=body, headers=self._headers, allow_redirects=False
            ) as response:
                if response.headers.get("Content-Type", "").lower().startswith(MEDIA_TYPE):
                    events = EventReader()
                if events is None and (response.content_length or math.inf) <= _HELD_BYTES:
                    num_bytes = len(await response.read())
                else:
                    num_bytes = await _read(response.content, events)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return Sample(
                planned_at=planned_at,
                sent_at=sent_at,
                done_at=monotonic(),
                outcome=_outcome_of_failure(error),
                error=str(error) or type(error).__name__,
            )
        headers, outcome = response.headers, Outcome.of_status(response.status)
        return Sample(
            planned_at=planned_at,
            sent_at=sent_at,
            done_at=monotonic(),
            outcome=outcome if events is None or outcome is not Outcome.OK else events.outcome,
            status=response.status,
            cold={"0": False, "1": True}.get(headers.get("X-Cold-Start", "")),
            batch_size=_batch_size(headers.get("X-Batch-Size", "")),
            phases_ms=server_timing(headers.getall("Server-Timing", ())),
            num_bytes=num_bytes,
            timing=None if events is None else events.timing(),
            error=None if events is None else events.error,
        )


async def _read(content: aiohttp.StreamReader, events: EventReader | None) -> int:
    """Read an answer as it comes, and hold none of it; return its length in bytes."""
    num_bytes = 0
    async for piece in content.iter_any():
        if events is not None:
            events.feed(piece, monotonic())
        num_bytes += len(piece)
    return num_bytes


def _batch_size(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        return None
    size = int(text)
    return size if 1 <= size <= _LARGEST_BATCH else None


def _outcome_of_failure(error: Exception) -> Outcome:
    if isinstance(error, TimeoutError):
        return Outcome.TIMEOUT
    if getattr(error, "errno", None) in _EXHAUSTED:  # aiohttp's have that of their cause
        return Outcome.UNSENT
    return Outcome.CONNECT_ERROR if isinstance(error, aiohttp.ClientConnectorError) else Outcome.BROKEN


def server_timing(lines: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return the (name, milliseconds) of each metric with a sound `dur` in Server-Timing header lines.

    The grammar is that of W3C Server Timing, section 3, less commas and semicolons inside quoted descriptions.
    """
    phases = []
    for line in lines:
        for metric in line.split(","):
            name, *parameters = metric.split(";")
            for parameter in parameters:
                key, _, value = parameter.partition("=")
                if key.strip().lower() == "dur" and (duration_ms := _milliseconds(value)) is not None:
                    phases.append((name.strip(), duration_ms))
                    break
    return tuple(phases)


def _milliseconds(text: str) -> float | None:
    try:
        value = float(text.strip().strip('"'))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
