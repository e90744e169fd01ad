"""One request and its answer, on their way between a client's connection and an instance's."""

import asyncio
import errno
from typing import Protocol

from faas.platform.back import BackConnection
from faas.platform.breaker import Capacity, Endpoint
from faas.platform.request import RequestHead
from faas.platform.response import ResponseReader
from faas.platform.routing import Router, Target
from faas.platform.wire import LocalAnswer, WireError, problem

_MAX_HELD_BODY_BYTES = 64 * 1024  # of a request that has no instance yet; more stays with its client
_MAX_REPLAY_BYTES = 64 * 1024  # an instance reads this much at once, so bytes left unread mean that none were read
_MAX_TRIES = 3


class Front(Protocol):
    """The client's side of an exchange."""

    loop: asyncio.AbstractEventLoop
    router: Router
    keeps_up: bool  # whether the client reads as fast as it is sent to

    def send(self, data: bytes) -> None:
        """Send to the client."""

    def answer(self, exchange: "Exchange", answer: LocalAnswer) -> None:
        """Answer without an instance, and be done with `exchange`."""

    def done(self, *, close: bool) -> None:
        """The answer of the present exchange is complete."""

    def cut(self) -> None:
        """End the connection in the middle of an answer, so that the client sees that it is not whole."""

    def flow(self) -> None:
        """Whether to read from the client may have changed."""

    def upgraded(self) -> bytes:
        """From now on the connection is a tunnel; what the client has sent into it already."""

    def must_close(self) -> bool:
        """Whether the connection ends after this answer, whatever the request asked for."""


class Exchange:
    """A request, held or forwarded. Its connection starts it when those before it are answered."""

    __slots__ = (
        "_back",
        "_body",
        "_capacity",
        "_closes",
        "_endpoint",
        "_front",
        "_held_ms",
        "_held_since_s",
        "_is_cold",
        "_is_over",
        "_may_replay",
        "_num_body_bytes",
        "_path",
        "_reader",
        "_timer",
        "_tries",
        "head",
        "is_complete",
        "is_started",
        "is_tunnel",
    )

    def __init__(self, front: Front, head: RequestHead) -> None:
        self.head = head
        self.is_complete = False  # the request has arrived whole
        self.is_started = False
        self.is_tunnel = False
        self._front = front
        self._body: list[bytes] = []  # what has arrived and has no connection to go to
        self._num_body_bytes = 0
        self._capacity: Capacity | None = None
        self._path = b""
        self._endpoint: Endpoint | None = None
        self._back: BackConnection | None = None
        self._reader: ResponseReader | None = None
        self._may_replay = False  # `_body` is all of it that was sent, and in one piece with the head
        self._closes = False
        self._is_cold = False
        self._is_over = False
        self._held_since_s: float | None = None
        self._held_ms: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tries = 0

    # The client's side.

    @property
    def wants_body(self) -> bool:
        """Whether more of the request may be read from the client now."""
        if self._back is not None:
            return not self._back.is_congested
        return self._num_body_bytes < _MAX_HELD_BODY_BYTES

    @property
    def has_answered(self) -> bool:
        """Whether the client has seen any of the answer."""
        return self._reader is not None and self._reader.status != 0

    def start(self) -> None:
        """Find out where the request goes, and send it or hold it."""
        self.is_started = True
        head = self.head
        path, mark, query = head.url.partition(b"?")
        route = self._front.router.route(head.host, path, head.method)
        if not isinstance(route, Target):
            self._front.answer(self, route)
            return
        capacity = self._capacity = route.capacity
        self._path = route.path + mark + query
        capacity.counts.requests += 1
        capacity.concurrency.enter()
        endpoint = capacity.acquire()
        if endpoint is None:
            self._hold(first=False)
        else:
            self._forward(endpoint)

    def body_arrived(self, data: bytes) -> None:
        """A piece of the request body."""
        if self._is_over:
            return
        if self.head.chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._back is None:
            self._body.append(data)
            self._num_body_bytes += len(data)
        else:
            self._forget_body()
            self._back.send(data)

    def request_ended(self) -> None:
        """The request has arrived whole."""
        self.is_complete = True
        if self.head.chunked and not self._is_over:
            if self._back is None:
                self._body.append(b"0\r\n\r\n")
            else:
                self._forget_body()
                self._back.send(b"0\r\n\r\n")

    def tunnel(self, data: bytes) -> None:
        """Bytes of an upgraded connection."""
        if self._back is not None:
            self._back.send(data)

    def flow(self, *, may_send: bool) -> None:
        """Whether the client keeps up with the answer has changed."""
        if self._back is not None:
            if may_send:
                self._back.resume()
            else:
                self._back.pause()

    def abandon(self) -> None:
        """The client has left: the instance sees its connection close, a place in the queue is given up."""
        if self._is_over or not self.is_started:
            return
        if self._capacity is not None and not self.is_tunnel:
            self._capacity.counts.cancelled += 1
        self._end(keep_back=False)

    # The queue's side.

    def granted(self, endpoint: Endpoint) -> None:
        """The wait is over: `endpoint` takes the request."""
        assert self._capacity is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held_since_s is not None:
            self._held_ms = (self._held_ms or 0.0) + (self._capacity.clock() - self._held_since_s) * 1e3
            self._held_since_s = None
        self._forward(endpoint)

    def refused(self, reason: str, retry_after_s: int) -> None:
        """The wait was in vain."""
        self._fail(503, reason, retry_after_s=retry_after_s)

    def _hold(self, *, first: bool) -> None:
        capacity = self._capacity
        assert capacity is not None
        if self._held_ms is None:
            capacity.counts.held += 1
        if capacity.is_at_zero and not self._is_cold:
            self._is_cold = True
            capacity.counts.cold += 1
        self._held_since_s = capacity.clock()
        left_s = capacity.hold_s
        if self.head.timeout_ms is not None:
            left_s = min(left_s, self.head.timeout_ms / 1e3)
        left_s -= (self._held_ms or 0.0) / 1e3
        self._timer = self._front.loop.call_later(max(0.0, left_s), self._expired)
        if not capacity.hold(self, first=first):
            status = 503 if self._path.startswith((b"/v1/", b"/v2/")) else 429
            detail = f"{capacity.queue_limit} requests wait for this function already: try again later"
            self._fail(status, detail, retry_after_s=1)

    def _expired(self) -> None:
        self._timer = None
        self._fail(504, "the deadline passed before an instance could take the request")

    # The instance's side.

    def _forward(self, endpoint: Endpoint) -> None:
        """Send what has arrived of the request over an idle connection, or a new one where none is still open."""
        self._endpoint = endpoint
        data = self.head.encode(self._path, held_ms=self._held_ms, cold=self._is_cold)
        if self._body:
            data = b"".join((data, *self._body))
        while endpoint.idle:
            back = endpoint.idle.pop()
            assert isinstance(back, BackConnection)
            if self._begin(back, data):
                return
        try:
            back = BackConnection(endpoint, self._front.loop)
        except OSError as error:
            self._no_connection(error)
            return
        if not self._begin(back, data):
            self._try_again("the instance closed the connection at once")

    def _begin(self, back: BackConnection, data: bytes) -> bool:
        """Whether the request is on its way; if not, no byte of it is."""
        try:
            back.begin(self, data)
        except OSError:
            back.close()
            assert self._capacity is not None
            self._capacity.counts.retried += 1
            return False
        self._back = back
        self._reader = ResponseReader(is_head=self.head.method == b"HEAD", upgradable=bool(self.head.upgrade))
        self._may_replay = len(data) <= _MAX_REPLAY_BYTES
        if not self._may_replay:
            self._forget_body()
        if not self._front.keeps_up:
            back.pause()
        self._front.flow()
        return True

    def _no_connection(self, error: OSError) -> None:
        capacity, endpoint = self._capacity, self._endpoint
        assert capacity is not None
        assert endpoint is not None
        if error.errno == errno.EAGAIN:
            self._let_go()
            if capacity.congested(endpoint):
                self._hold(first=True)
            else:
                self._fail(503, "the instance takes no connections: try again later", retry_after_s=1)
        elif error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            self._fail(503, f"the platform has no connection left ({error.strerror}): try again", retry_after_s=1)
        else:
            capacity.unreachable(endpoint)
            self._try_again(f"no connection to the instance ({error.strerror})")

    def _try_again(self, reason: str) -> None:
        """Send the request to another instance: none has read a byte of it."""
        assert self._capacity is not None
        self._let_go()
        self._tries += 1
        if self._tries >= _MAX_TRIES:
            self._fail(502, f"{reason}, {self._tries} times: the function's log says more")
            return
        self._capacity.counts.retried += 1
        endpoint = self._capacity.acquire()
        if endpoint is None:
            self._hold(first=True)
        else:
            self._forward(endpoint)

    def received(self, data: bytes) -> None:
        """Bytes of the answer."""
        reader, front = self._reader, self._front
        assert reader is not None
        if self._may_replay:
            self._forget_body()
        if not reader.status:
            self._closes = not self.is_complete or not self.head.keep_alive or front.must_close()
        try:
            out = reader.feed(data, close=self._closes)
        except WireError as error:
            self._broken(error.detail)
            return
        if out:
            front.send(out)
        if reader.is_done:
            self._finish()
        elif reader.is_upgraded and not self.is_tunnel:
            self.is_tunnel = True
            self.tunnel(front.upgraded())

    def lost(self, *, unread: bool) -> None:
        """The instance is gone before the answer was complete."""
        reader = self._reader
        assert reader is not None
        self._back = None
        if reader.is_upgraded or (reader.ends_with_connection and not unread):
            self._closes = True
            self._finish()
        elif unread and self._may_replay:
            self._try_again("the instance closed the connection without reading the request")
        else:
            self._broken("the instance went away before it had answered")

    def drained(self) -> None:
        """The instance has caught up with the request body."""
        self._front.flow()

    def _finish(self) -> None:
        """The answer is complete."""
        assert self._reader is not None
        self._end(keep_back=self._reader.is_reusable and self.is_complete)
        self._front.done(close=self._closes)

    def _broken(self, detail: str) -> None:
        """The instance will not complete the answer."""
        if self.has_answered:
            assert self._capacity is not None
            self._capacity.counts.failed += 1
            self._end(keep_back=False)
            self._front.cut()
        else:
            self._fail(502, detail)

    def _fail(self, status: int, detail: str, *, retry_after_s: int | None = None) -> None:
        assert self._capacity is not None
        self._capacity.counts.failed += 1
        self._end(keep_back=False)
        self._front.answer(self, problem(status, detail, retry_after_s=retry_after_s))

    def _end(self, *, keep_back: bool) -> None:
        """Give back all that the exchange holds."""
        self._is_over = True
        self._forget_body()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._capacity is None:
            return
        self._capacity.withdraw(self)
        self._let_go(keep_back=keep_back)
        self._capacity.concurrency.leave()

    def _forget_body(self) -> None:
        """What was sent is not to be sent again."""
        self._may_replay = False
        self._body.clear()

    def _let_go(self, *, keep_back: bool = False) -> None:
        """Give back the connection, then the instance, so that who waits for it finds the connection."""
        back, endpoint = self._back, self._endpoint
        self._back = self._endpoint = None
        if back is not None:
            if keep_back:
                back.give_back()
            else:
                back.close()
        if endpoint is not None:
            assert self._capacity is not None
            self._capacity.release(endpoint)
