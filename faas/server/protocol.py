"""Uvicorn's HTTP protocol, which makes its answers by ours, goes on where another protocol is offered, and has bounds.

Clients that know HTTP/2 offer it with every first request (`Upgrade: h2c`: each Java client that was not told
otherwise), and a server that does not take the offer answers as if it were not there (RFC 9110, 7.8). The parser
however stops at the end of such a head, and uvicorn leaves it there: the body would be lost, and so would the
connection.

Uvicorn waits for ever for a request that has begun, and keeps any head, however long.
"""

from __future__ import annotations

import asyncio
import contextvars
import http
from typing import Any, Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from faas.server.cycle import Cycle
from faas.server.uvicorn_parts import STATUS_LINE, HttpToolsProtocol

MAX_HEAD_BYTES: Final = 64 << 10
"""Of the request line and the headers; what comes with their last piece is let through."""

LINGER_S: Final = 2.0
"""How long a client that was refused may still send, so that it reads why."""

_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))


def _refusal(status: int, detail: str) -> bytes:
    """Return the answer to what is no request, and so has no id."""
    body = b'{"status":%d,"type":"about:blank","title":"%b","detail":"%b"}'
    text = body % (status, http.HTTPStatus(status).phrase.encode(), detail.encode())
    head = b"%bcontent-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
    return head % (STATUS_LINE[status], len(text), text)


_MALFORMED: Final = _refusal(400, "not a well-formed HTTP/1.1 request")
_TOO_LARGE: Final = _refusal(431, f"the request line and headers are over {MAX_HEAD_BYTES} bytes: send less in them")


class Protocol(HttpToolsProtocol):
    """One connection. It is closed when its client sends nothing of a request for as long as it may be idle."""

    _reads_on = False
    """Whether the parser is being told of a head that has been read already."""

    _begun: Any = None
    """The scope of a head that is not complete."""
    _num_head_bytes = 0
    """How much has come of it since the piece in which it began, of which most may have been something else."""

    _answering: Any = None
    """The cycle of the request that was begun last. Others may have been read, and wait for it to end."""

    _waits_since: float | None = None
    """Since when the client has been waited for, on the loop's clock; None while it is not."""

    _alarm: asyncio.TimerHandle | None = None
    """Looks whether that is too long; a timer set and unset for each request would cost a tenth of a small one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._known = contextvars.copy_context()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        answering, self._answering = self._answering, None
        if isinstance(answering, Cycle) and not answering.response_complete:
            answering.disconnected = True
            answering.message_event.set()
            if answering.on_gone is not None:
                answering.on_gone()
        self._waits_since = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self._waits_since = None
        while data:
            try:
                self.parser.feed_data(data)
                break
            except HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                self._read_on()
            except HttpParserError:
                self._refuse(_MALFORMED)
                return
        scope, cycle = self.scope, self.cycle
        if scope is not None and "method" not in scope:
            self._take_head(scope, len(data))
        elif cycle is None or cycle.more_body:
            self._wait()

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self._reads_on:
            self.scope["method"] = "POST"  # that of a head which is complete
            return
        super().on_headers_complete()
        self.cycle.__class__ = Cycle  # uvicorn makes its own, and the work on it begins in the next turn of the loop

    def on_chunk_header(self) -> None:
        """Called by the parser. What comes like headers from now on are trailers, none of the scope's (RFC 9110, 6.5).

        A platform leaves out or sets anew what a caller must not say of itself, in headers alone.
        """
        self.headers = []

    def on_response_complete(self) -> None:
        """Called by the cycle."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._wait()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Called for each request: answer it, among the context variables that there were when its client connected.

        Requests that are sent ahead are begun by the one before them, and reading that was paused by one goes on in its
        context (https://github.com/python/cpython/issues/140947).
        """
        self._answering = cycle
        task = self.loop.create_task(cycle.run_asgi(app), context=self._known.copy())
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _wait(self) -> None:
        """Let the client send on within the time for which its connection may be idle."""
        self._waits_since = self.loop.time()
        if self._alarm is None:
            self._alarm = self.loop.call_later(self.timeout_keep_alive, self._look)

    def _look(self) -> None:
        """Close the connection if nothing has come for too long: no fault of a client's who is not read, or waits."""
        self._alarm = None
        if self._waits_since is None:
            return
        left_s = self._waits_since + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._alarm = self.loop.call_later(left_s, self._look)
            return
        cycle = self.cycle
        waits = cycle is not None and not cycle.more_body and not cycle.response_complete
        if (waits or self.pipeline or self.flow.read_paused) and not self.transport.is_closing():
            self._wait()
        else:
            self.transport.close()

    def _take_head(self, scope: Any, num_bytes: int) -> None:
        """Let a head come on that has begun, within its bounds."""
        if scope is not self._begun:
            self._begun, self._num_head_bytes = scope, 0
        else:
            self._num_head_bytes += num_bytes
        if self._num_head_bytes > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        else:
            self._wait()

    def _refuse(self, answer: bytes) -> None:
        """End the connection so that its client reads why; the requests before are answered first.

        Who waits for more of the request that is refused hears that it is gone.
        """
        cycle, waiting = self.cycle, self.pipeline
        is_over = cycle is None or cycle.response_complete
        is_under_way = not is_over and cycle.more_body  # the last one is the one that is refused
        if is_under_way:
            cycle.disconnected = True
            cycle.message_event.set()
            if waiting:
                waiting.popleft()
                is_under_way = False
            else:
                is_over = True
        deaf = _Deaf(self, answer, says_end=not is_under_way)
        self.transport.set_protocol(deaf)
        if is_over:
            deaf.end()
        else:
            waiting.appendleft((cast(Any, deaf), self.app))

    def _read_on(self) -> None:
        """Have what follows a head that has an offer in it read as what follows any head, by a new parser."""
        framing = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] in _FRAMING]
        cycle = self.cycle
        cycle.more_body = True  # the parser said that nothing follows; nobody has looked yet
        cycle.message_event.clear()
        self.parser = HttpRequestParser(self)
        self._reads_on = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        finally:
            self._reads_on = False


class _Deaf(asyncio.Protocol):
    """A connection of which nothing more can be understood: its client is told so, and what it still sends is dropped.

    It is in the place of `before`, which is told of the end. As uvicorn's cycles do it stands in line behind the
    requests that came before, and then tells.
    """

    def __init__(self, before: Protocol, answer: bytes, *, says_end: bool) -> None:
        self._before = before
        self._answer = answer
        self._says_end = says_end
        self._closing: asyncio.TimerHandle | None = None

    async def run_asgi(self, _app: Any) -> None:
        """It is its turn."""
        self.end()

    def end(self) -> None:
        """Tell the client, and close a while later."""
        transport = self._before.transport
        transport.write(self._answer)
        if self._says_end:
            transport.write_eof()
        self._closing = self._before.loop.call_later(LINGER_S, transport.close)

    def pause_writing(self) -> None:
        """The client does not keep up with what is sent to it."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """The client keeps up again."""
        self._before.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        if self._closing is not None:
            self._closing.cancel()
        self._before.connection_lost(exc)
