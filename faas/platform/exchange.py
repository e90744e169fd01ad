"""One request and its answer, on their way between a client's connection and an instance's."""

import errno

from msgspec.structs import replace

from faas.errors import DeadlineExceeded, FaasError, QueueFull, Unavailable
from faas.platform.back import begin
from faas.platform.breaker import Capacity
from faas.platform.client_side import ClientSide
from faas.platform.deadlines import Line
from faas.platform.endpoint import Connection, Endpoint
from faas.platform.hold import Hold
from faas.platform.request_head import RequestHead
from faas.platform.response import ResponseReader, is_plain
from faas.platform.routing import FEEDBACK, Sought, Target
from faas.platform.search import Seeking
from faas.platform.wire import LocalAnswer, WireError
from faas.server.problem import Problem

_MAX_HELD_BODY_BYTES = 64 * 1024  # of a request that has no instance yet; more stays with its client
_MAX_REPLAY_BYTES = 64 * 1024  # kept to be sent again: an instance that left bytes unread has called no handler yet
_MAX_TRIES = 3
_LOOK_AGAIN_S = 0.5
_MAX_LOOKS = 3
_EXHAUSTED = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_STATUS_AT = len(b"HTTP/1.1 ")  # of a plain answer
_FIVE = ord("5")  # what the statuses of errors begin with


class Exchange:
    """A request, held or forwarded. Its connection starts it when those before it are answered."""

    __slots__ = (
        "_back",
        "_body",
        "_capacity",
        "_closes",
        "_endpoint",
        "_front",
        "_hold",
        "_is_over",
        "_line",
        "_may_replay",
        "_num_looks",
        "_path",
        "_reader",
        "_seeking",
        "_tries",
        "has_answered",
        "head",
        "is_complete",
        "is_local",
        "is_started",
        "is_tunnel",
        "request_id",
    )

    _capacity: Capacity  # set when it starts, unless it concerns no function
    _num_looks: int  # set when the instance's time is up

    def __init__(self, front: ClientSide, head: RequestHead, body: bytes, is_complete: bool) -> None:
        self.head = head
        self.request_id = head.request_id or front.ids.of(None)
        self.is_complete = is_complete  # the request has arrived whole
        self.is_started = False
        self.is_local = True  # it concerns no function
        self.is_tunnel = False
        self.has_answered = False  # the client has seen some of the answer
        self._front = front
        self._body = body  # what has arrived and may have to be sent, or sent again
        self._may_replay = False  # it is all that was sent
        self._path = b""
        self._endpoint: Endpoint | None = None
        self._back: Connection | None = None
        self._closes = False
        self._is_over = False
        self._hold: Hold | None = None  # made when it first has to wait
        self._seeking: Seeking | None = None  # made when its function is not known yet
        self._line: Line | None = None  # where an instance's time for it runs, or that for its body to come
        self._reader: ResponseReader | None = None  # of an answer that does not come whole
        self._tries = 0

    # The client's side.

    @property
    def wants_body(self) -> bool:
        """Whether more of the request may be read from the client now."""
        if self._back is not None:
            return not self._back.is_congested
        return len(self._body) < _MAX_HELD_BODY_BYTES

    def start(self) -> None:
        """Find out where the request goes, and send it or hold it."""
        self.is_started = True
        head = self.head
        path, mark, query = head.url.partition(b"?")
        route = self._front.router.route(head.host, path, head.method, head.tag)
        if not isinstance(route, Target):
            self._goes_nowhere(route)
            return
        self.is_local = False
        capacity = self._capacity = route.capacity
        self._path = route.path + mark + query if mark else route.path
        meant = head.instance_id if route.path == FEEDBACK else b""
        if not self.is_complete and not meant and not capacity.is_at_zero and self._lacks_body:
            capacity.arrive()
            self._await_body()
            return
        endpoint = capacity.enter_at(meant) if meant else capacity.enter()
        if endpoint is None:
            self._wait(first=False)
        else:
            self.forward(endpoint)

    def refuse(self, answer: LocalAnswer) -> None:
        """No function takes the request."""
        self._is_over = True
        self._front.answer(answer)

    def _goes_nowhere(self, route: LocalAnswer | Sought) -> None:
        """It concerns no function, or one that has to be found first; that is tried once."""
        if isinstance(route, LocalAnswer):
            self.refuse(route)
        elif self._seeking is not None or (done := route.find()) is None:
            self.refuse(route.otherwise)
        else:
            self._seeking = Seeking(self, done, self._front.loop, self.head.timeout_ms)

    def body_arrived(self, data: bytes, is_complete: bool) -> None:
        """A piece of the request body."""
        self.is_complete = is_complete
        if self._back is not None:
            if self._may_replay and len(self._body) + len(data) <= _MAX_REPLAY_BYTES:
                self._body += data
            else:
                self._forget_body()
            self._back.send(data)
        elif not self._is_over:
            self._body += data
            if self._line is not None and not self._lacks_body:
                self._end_time()
                self._take_turn()

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
        if self._is_over or self.is_local:
            if self._seeking is not None and not self._is_over:
                self._seeking.end()
            return
        if not self.is_tunnel:
            self._capacity.counts.cancelled += 1
        self._end(keep_back=False)

    @property
    def _lacks_body(self) -> bool:
        """Whether a small body is still to come, for which no place at an instance need be kept.

        A client that waits to be asked for it is asked by an instance, and a larger one goes there as it comes: it may
        be too large, as its head tells.
        """
        head, capacity = self.head, self._capacity
        if self.is_complete or not capacity.limit or capacity.call_s is None or head.waits_to_be_asked:
            return False
        return max(len(self._body), head.content_length) < _MAX_HELD_BODY_BYTES

    def _await_body(self) -> None:
        most_s = self._capacity.call_s
        assert most_s is not None
        self._line = self._front.deadlines[most_s]
        self._line.begin(self)

    # The queue's side.

    def _take_turn(self) -> None:
        """Go to an instance, or wait for one; who has waited already is the first in line."""
        endpoint = self._capacity.acquire()
        if endpoint is None:
            self._wait(first=self._hold is not None)
        else:
            self.forward(endpoint)

    def granted(self, endpoint: Endpoint) -> None:
        """The wait is over: `endpoint` takes the request, if it is here."""
        if self._lacks_body:
            self._capacity.release(endpoint)
            self._await_body()
        else:
            self.forward(endpoint)

    def _wait(self, *, first: bool) -> None:
        if self._hold is None:
            self._hold = Hold(self, self._capacity, self._front.loop, self.head.timeout_ms)
        self._hold.wait(first=first)

    def give_up(self, error: FaasError) -> None:
        """No instance takes the request, or none in time."""
        problem = Problem.of(error)
        if isinstance(error, QueueFull) and self._path.startswith((b"/v1/", b"/v2/")):
            problem = replace(problem, status=503)  # as these protocols say it
        self._fail(problem)

    # The instance's side.

    def forward(self, endpoint: Endpoint) -> None:
        """Send what has arrived of the request to `endpoint`."""
        self._endpoint = endpoint
        front, head, hold, capacity = self._front, self.head, self._hold, self._capacity
        data = head.encode(self._path, self._body, self.request_id, None if hold is None else hold.held)
        try:
            back, num_stale = begin(self, endpoint, data, front.loop)
        except OSError as error:
            self._no_connection(error)
            return
        self._back = back
        capacity.counts.retried += num_stale
        if capacity.call_s is not None:
            line = self._line = front.deadlines[capacity.call_s]
            line.begin(self)
        self._may_replay = len(data) <= _MAX_REPLAY_BYTES
        if not self._may_replay:
            self._forget_body()
        if not front.keeps_up:
            back.pause()
        if back.is_congested or not front.is_reading:
            front.flow()

    def _no_connection(self, error: OSError) -> None:
        capacity, endpoint = self._capacity, self._endpoint
        assert endpoint is not None
        if error.errno == errno.EAGAIN and capacity.congested(endpoint):
            self._let_go()
            self._wait(first=True)
        elif error.errno in _EXHAUSTED:
            self._fail(Problem.of(Unavailable(f"no connection to the instance can be had now ({error.strerror})")))
        else:
            capacity.unreachable(endpoint)
            self._try_again(f"no connection to the instance ({error.strerror})")

    def _try_again(self, reason: str) -> None:
        """Send the request to another instance: none has read a byte of it."""
        self._let_go()
        self._tries += 1
        self._capacity.counts.retried += 1
        endpoint = self._capacity.acquire()
        if endpoint is None:
            self._wait(first=True)
        elif self._tries < _MAX_TRIES:
            self.forward(endpoint)
        else:
            self._capacity.release(endpoint)
            self._fail(Problem.of(Unavailable(f"{reason}, {self._tries} times: the function's log says more")))

    def received(self, data: bytes) -> None:
        """Bytes of the answer."""
        head, front, reader = self.head, self._front, self._reader
        if reader is None:
            self._may_replay = False
            may_pass = self.is_complete and head.keep_alive and not front.must_close and head.method != b"HEAD"
            if may_pass and is_plain(data):
                front.send(data)
                self._capacity.counts.errors += data[_STATUS_AT] >= _FIVE
                self._finish(keep_back=True)
                return
            reader = self._reader = ResponseReader(is_head=head.method == b"HEAD", may_upgrade=bool(head.upgrade))
        if not reader.status:
            self._closes = not self.is_complete or not head.keep_alive or front.must_close
        try:
            out = reader.feed(data, close=self._closes)
        except WireError as error:
            self._broken(error.detail)
            return
        if out:
            front.send(out)
            self.has_answered = reader.status != b""
        if reader.is_done:
            self._capacity.counts.errors += reader.status >= b"500"
            self._finish(keep_back=reader.is_reusable and self.is_complete)
        elif reader.is_upgraded and not self.is_tunnel:
            self.is_tunnel = True
            self._end_time()
            self.tunnel(front.upgraded())

    def lost(self, *, unread: bool) -> None:
        """The instance is gone before the answer was complete."""
        reader = self._reader
        self._back = None
        if reader is not None and (reader.is_upgraded or (reader.ends_with_connection and not unread)):
            self._closes = True
            self._finish(keep_back=False)
        elif unread and self._may_replay:
            self._try_again("the instance closed the connection without reading the request")
        else:
            assert self._endpoint is not None
            self._broken(self._endpoint.failure or "the instance went away before it had answered")

    def drained(self) -> None:
        """The instance has caught up with the request body."""
        self._front.flow()

    def overdue(self) -> None:
        """The instance should have answered long ago, if only with an error: it is deaf, unless the client is slow."""
        if self.has_answered and self._is_slowly_read():
            return
        back, endpoint = self._back, self._endpoint
        why = "the instance did not answer within the function's time"
        if not self.is_complete and (back is None or not back.is_congested):
            why = "the rest of the request did not arrive within the function's time"
        elif endpoint is not None:
            self._capacity.unreachable(endpoint)
        if self.has_answered:
            self._broken("")
        else:
            self._fail(Problem.of(DeadlineExceeded(why)))

    def _is_slowly_read(self) -> bool:
        """Whether there is more of the answer than the client reads; that is looked at again.

        A client may have read all just now. So only if there is nothing for it time and again it is not the slow one.
        """
        if self._line is None:
            return False
        self._num_looks = 0 if self._front.num_buffered_bytes else getattr(self, "_num_looks", 0) + 1
        if self._num_looks == _MAX_LOOKS:
            return False
        self._line = self._front.deadlines[_LOOK_AGAIN_S]
        self._line.begin(self)
        return True

    # Its end.

    def _finish(self, *, keep_back: bool) -> None:
        """The answer is complete."""
        if self._endpoint is not None:
            self._endpoint.num_answered += 1
        self._end(keep_back=keep_back)
        self._front.done(close=self._closes)

    def _broken(self, detail: str) -> None:
        """The instance will not complete the answer."""
        if self.has_answered:
            self._capacity.counts.failed += 1
            self._end(keep_back=False)
            self._front.cut()
        else:
            self._fail(Problem.plain(502, detail))

    def _fail(self, problem: Problem) -> None:
        self._capacity.counts.failed += 1
        self._end(keep_back=False)
        self._front.answer(LocalAnswer(problem.status, problem=problem))

    def _end(self, *, keep_back: bool) -> None:
        """Give back all that it holds: the connection before the instance, so that who waits for that one finds it."""
        self._is_over = True
        self._body = b""
        if self._hold is not None:
            self._hold.end()
        self._end_time()
        back, endpoint = self._back, self._endpoint
        self._back = self._endpoint = None
        if back is not None:
            if keep_back:
                back.give_back()
            else:
                back.close()
        self._capacity.leave(endpoint)

    def _let_go(self) -> None:
        """Give up this instance, to try another."""
        self._end_time()
        back, endpoint = self._back, self._endpoint
        self._back = self._endpoint = None
        if back is not None:
            back.close()
        if endpoint is not None:
            self._capacity.release(endpoint)

    def _end_time(self) -> None:
        if self._line is not None:
            self._line.end(self)
            self._line = None

    def _forget_body(self) -> None:
        """What was sent is not to be sent again."""
        self._may_replay = False
        self._body = b""
