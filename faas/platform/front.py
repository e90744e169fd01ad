"""A client's connection: reads requests, answers them in their order, and closes so that the last answer is read."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import cast

from faas.platform.clients import FULL, Clients
from faas.platform.exchange import Exchange
from faas.platform.request import RequestReader
from faas.platform.request_head import RequestHead
from faas.platform.routing import Router
from faas.platform.wire import LocalAnswer, WireError, encode_answer, problem

_HIGH_WATER_BYTES = 256 * 1024  # of an answer that its client does not read


class FrontConnection(asyncio.Protocol):
    """One client. Requests that follow before an answer wait; meanwhile nothing more is read from the client."""

    def __init__(self, clients: Clients) -> None:
        self.loop = clients.loop
        self.router: Router = clients.router
        self.ids = clients.ids
        self.deadlines = clients.deadlines
        self.keeps_up = True
        self.is_reading = True
        self.must_close = clients.is_draining
        self._clients = clients
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._reader: RequestReader = cast(RequestReader, None)
        self._fd = -1
        self._exchanges: deque[Exchange] = deque()  # the first is the one being answered
        self._refusal: LocalAnswer | None = None  # the last answer: what came after the exchanges is not HTTP
        self._is_tunnel = False
        self._is_advancing = False
        self._is_closing = False  # what arrives is read and dropped
        self._idle_since_s = 0.0
        self._num_stalled_bytes: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered or arriving."""
        return not self._exchanges and not self._reader.is_in_head

    @property
    def has_whole_request(self) -> bool:
        """Whether the request under way has arrived whole."""
        return bool(self._exchanges) and self._exchanges[0].is_complete

    @property
    def num_buffered_bytes(self) -> int:
        """How much of an answer waits for the client to read."""
        return self._transport.get_write_buffer_size()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._fd = transport.get_extra_info("socket").fileno()
        last = self._clients.settings.last_descriptor
        if last is not None and self._fd > last:
            self.router, self.must_close = FULL, True
        peer = transport.get_extra_info("peername")
        self._reader = RequestReader(self, peer[0].encode() if isinstance(peer, tuple) else b"")
        self._idle_since_s = self.loop.time()
        self._arm(self._clients.settings.keep_alive_s, self._check_idle)
        self._clients.opened(self)

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._is_closing:
            return
        if self._is_tunnel:
            self._exchanges[0].tunnel(data)
            self.flow()
            return
        try:
            self._reader.feed(data)
        except WireError as error:
            self._malformed(error)
        if self._exchanges and not self._reader.is_paused and self._refusal is None:  # the usual case, for short
            exchange = self._exchanges[0]
            if exchange.is_complete and not exchange.is_started:
                exchange.start()
                return
        if self._exchanges:  # a body makes progress; a head has its time as a whole
            self._idle_since_s = self.loop.time()
        self._advance()

    def eof_received(self) -> None:
        """A client that ends its side has left: HTTP/1.1 clients keep it open for the answer."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._is_closing = True
        self._clients.hangups.unwatch(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        for exchange in self._exchanges:
            exchange.abandon()
        self._exchanges.clear()
        self._clients.closed(self)

    def pause_writing(self) -> None:
        """The client does not keep up with what is sent to it."""
        self._let_send(False)

    def resume_writing(self) -> None:
        """The client keeps up again."""
        self._let_send(True)

    # What the reader calls.

    def request_began(self, head: RequestHead, body: bytes, *, is_complete: bool) -> None:
        """A request, in line behind those not answered yet."""
        self._clients.counts.requests += 1
        self._exchanges.append(Exchange(self, head, body, is_complete))
        if head.upgrade or len(self._exchanges) > 1:
            self._reader.pause()

    def body_arrived(self, data: bytes, *, is_complete: bool) -> None:
        """A piece of the body of the last request in line."""
        self._exchanges[-1].body_arrived(data, is_complete)

    # What the exchange calls.

    def send(self, data: bytes) -> None:
        """Send to the client, if it is still there."""
        if not self._is_closing:
            self._transport.write(data)

    def answer(self, answer: LocalAnswer) -> None:
        """Answer without an instance, and be done with the first in line."""
        exchange = self._exchanges[0]
        head = exchange.head
        close = not exchange.is_complete or not head.keep_alive or self.must_close
        is_head = head.method == b"HEAD"
        self._clients.counts.local += exchange.is_local
        self.send(encode_answer(answer, exchange.request_id, is_head=is_head, close=close))
        self.done(close=close)

    def done(self, *, close: bool) -> None:
        """The first in line is answered: the next, please."""
        exchange = self._exchanges.popleft()
        self._idle_since_s = self.loop.time()
        if close or (self.must_close and not self._exchanges):  # an answer that began before it had to
            self._close(linger=not exchange.is_complete or not self.is_reading)
            return
        if self._reader.is_paused:
            try:
                self._reader.resume()
            except WireError as error:
                self._malformed(error)
        if self._exchanges or self._refusal is not None or not self.is_reading:
            self._advance()

    def cut(self) -> None:
        """End the connection now, in the middle of whatever it is."""
        self._is_closing = True
        self._transport.abort()

    def flow(self) -> None:
        """Read from the client only while there is a place for what it sends."""
        may_read = not self._reader.is_paused or self._is_tunnel
        if self._exchanges and self._exchanges[0].is_started:
            may_read = may_read and self._exchanges[0].wants_body
        self._let_read(may_read or self._is_closing)

    def upgraded(self) -> bytes:
        """Bytes pass unread from now on; return those that the client has sent already."""
        self._is_tunnel = True
        self.flow()
        return self._reader.take_rest()

    # The connection's life.

    def drain(self) -> None:
        """Close now unless a request is under way, whose answer will then say that it is the last."""
        self.must_close = True
        if self.is_idle:
            self._close(linger=False)

    def _advance(self) -> None:
        """Start what is first in line; a request that is answered at once makes way for the next."""
        if self._is_advancing:
            return
        self._is_advancing = True
        while self._exchanges and not self._is_closing and not self._exchanges[0].is_started:
            self._exchanges[0].start()
        self._is_advancing = False
        if self._refusal is not None and not self._exchanges and not self._is_closing:
            self.send(encode_answer(self._refusal, self.ids.of(None), is_head=False, close=True))
            self._close(linger=True)
        self.flow()

    def _malformed(self, error: WireError) -> None:
        """Nothing that follows can be understood; what came before is answered first."""
        self._clients.counts.malformed += 1
        self._refusal = problem(error.status, error.detail)
        last = self._exchanges[-1] if self._exchanges else None
        if last is None or last.is_complete:
            return
        if last.has_answered:
            self.cut()
            return
        last.abandon()
        self._exchanges.pop()

    def _close(self, *, linger: bool) -> None:
        """Close when all is sent. Lingering, read on a while, for a client that is still sending to see its answer."""
        self._is_closing = True
        if self._transport.is_closing():
            return
        if linger:
            with contextlib.suppress(OSError):
                self._transport.write_eof()
            self._let_read(True)
        else:
            self._transport.close()
        self._arm(self._clients.settings.linger_s, self._check_closing)

    def _arm(self, delay_s: float, check: Callable[[], None]) -> None:
        """Look at the connection again then. One look in so long a time, not a timer for each request."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(delay_s, check)

    def _check_closing(self) -> None:
        if self.num_buffered_bytes == 0 or self._is_stalled():
            self._transport.abort()
        else:
            self._arm(self._clients.settings.linger_s, self._check_closing)

    def _check_idle(self) -> None:
        """End a connection whose client has neither sent nor read what it should for too long."""
        keep_alive_s = self._clients.settings.keep_alive_s
        exchange = self._exchanges[0] if self._exchanges else None
        waits_for_us = exchange is not None and (exchange.is_complete or not self.is_reading)
        left_s = keep_alive_s if waits_for_us else self._idle_since_s + keep_alive_s - self.loop.time()
        if self._is_stalled():
            self.cut()
        elif left_s > 0:
            self._arm(left_s, self._check_idle)
        elif self.is_idle:
            self._close(linger=False)
        else:
            self._malformed(WireError(408, "the rest of the request did not arrive in time"))
            self._advance()

    def _is_stalled(self) -> bool:
        """Whether the client has read nothing of what waits for it since this was last asked."""
        before, self._num_stalled_bytes = self._num_stalled_bytes, None if self.keeps_up else self.num_buffered_bytes
        return before is not None and before == self._num_stalled_bytes

    def _let_read(self, may_read: bool) -> None:
        if may_read is self.is_reading or self._transport.is_closing():
            return
        self.is_reading = may_read
        if may_read:
            self._clients.hangups.unwatch(self._fd)
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            self._clients.hangups.watch(self._fd, self._transport.abort)

    def _let_send(self, keeps_up: bool) -> None:
        self.keeps_up = keeps_up
        if keeps_up:
            self._num_stalled_bytes = None
        if self._exchanges and self._exchanges[0].is_started:
            self._exchanges[0].flow(may_send=keeps_up)
