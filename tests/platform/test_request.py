"""The reading of requests, without sockets."""

import contextlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faas.platform.request import RequestReader
from faas.platform.request_head import Held, RequestHead
from faas.platform.wire import WireError

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class Sink:
    """Takes requests as `(head, body, is complete)`."""

    heads: list[RequestHead] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    complete: list[bool] = field(default_factory=list)
    pauses_at: int = 10**9
    reader: RequestReader | None = None

    def request_began(self, head: RequestHead, body: bytes, *, is_complete: bool) -> None:
        assert all(self.complete), "a request began within another"
        self.heads.append(head)
        self.bodies.append(body)
        self.complete.append(is_complete)
        if len(self.heads) >= self.pauses_at:
            assert self.reader is not None
            self.reader.pause()

    def body_arrived(self, data: bytes, *, is_complete: bool) -> None:
        assert not self.complete[-1], "a body went on after its end"
        self.bodies[-1] += data
        self.complete[-1] = is_complete


def read(*pieces: bytes, peer: bytes = b"10.0.0.1") -> Sink:
    sink = Sink()
    reader = RequestReader(sink, peer)
    for piece in pieces:
        reader.feed(piece)
    return sink


def with_headers(*lines: bytes, method: bytes = b"GET", url: bytes = b"/", version: bytes = b"1.1") -> bytes:
    return b"\r\n".join((b"%b %b HTTP/%b" % (method, url, version), b"Host: here:80", *lines, b"", b""))


def sent(head: RequestHead, held: Held | None = None) -> dict[bytes, bytes]:
    """The headers that an instance gets, each of which must come once."""
    first, *lines = head.encode(b"/p", b"", b"made", held).split(b"\r\n")
    assert first == b"%b /p HTTP/1.1" % head.method
    assert lines[-2:] == [b"", b""]
    headers = [line.partition(b":") for line in lines[:-2]]
    names = [name.lower() for name, _, _ in headers]
    assert len(set(names)) == len(names), "a header twice"
    return {name.lower(): value.strip() for name, _, value in headers}


# --- what is passed on


def test_headers_go_on_as_they_came() -> None:
    (head,) = read(
        with_headers(b"Accept: */*", b"X-Weird:  a  b ", b"Content-Length: 3", method=b"POST") + b"abc"
    ).heads
    assert (head.method, head.url, head.host, head.content_length) == (b"POST", b"/", b"here:80", 3)
    encoded = head.encode(b"/p", b"abc", b"made", None)
    assert b"\r\nHost: here:80\r\nAccept: */*\r\nX-Weird:  a  b \r\nContent-Length: 3\r\n" in encoded
    assert encoded.endswith(b"\r\n\r\nabc")


def test_the_client_is_named() -> None:
    (head,) = read(with_headers()).heads
    assert sent(head)[b"x-forwarded-for"] == b"10.0.0.1"
    assert sent(head)[b"x-forwarded-proto"] == b"http"
    (head,) = read(with_headers(b"X-Forwarded-For: 1.2.3.4", b"x-forwarded-for: 5.6.7.8, 9.9.9.9")).heads
    assert sent(head)[b"x-forwarded-for"] == b"1.2.3.4, 5.6.7.8, 9.9.9.9, 10.0.0.1"
    (head,) = read(with_headers(b"X-Forwarded-Proto: https")).heads
    assert sent(head)[b"x-forwarded-proto"] == b"https"
    (head,) = read(with_headers(), peer=b"").heads
    assert b"x-forwarded-for" not in sent(head)


def test_a_request_gets_an_id_unless_it_has_one() -> None:
    (head,) = read(with_headers()).heads
    assert head.request_id == b""
    assert sent(head)[b"x-request-id"] == b"made"
    (head,) = read(with_headers(b"X-Request-ID: Mine-1")).heads
    assert head.request_id == b"Mine-1"
    assert sent(head)[b"x-request-id"] == b"Mine-1"


def test_headers_of_this_hop_stay_here() -> None:
    (head,) = read(
        with_headers(
            b"Connection: keep-alive, X-Private, TE",
            b"Keep-Alive: timeout=5",
            b"Proxy-Connection: keep-alive",
            b"TE: trailers",
            b"Trailer: X",
            b"X-PRIVATE: secret",
            b"Upgrade: h2c",
            b"X-Public: yes",
        )
    ).heads
    assert set(sent(head)) == {b"host", b"x-public", b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"}


def test_connection_cannot_take_away_the_framing() -> None:
    (head,) = read(with_headers(b"Connection: content-length, host, close", b"Content-Length: 1") + b"a").heads
    assert sent(head)[b"content-length"] == b"1"
    assert sent(head)[b"host"] == b"here:80"
    assert not head.keep_alive


def test_a_client_cannot_say_that_it_was_held() -> None:
    (head,) = read(with_headers(b"X-Faas-Cold: 1", b"x-faas-activate-ms: 5")).heads
    assert not {b"x-faas-cold", b"x-faas-activate-ms"} & set(sent(head))
    assert sent(head, Held(12.3456, is_cold=False))[b"x-faas-activate-ms"] == b"12.346"
    assert b"x-faas-cold" not in sent(head, Held(1, is_cold=False))
    assert sent(head, Held(1, is_cold=True))[b"x-faas-cold"] == b"1"


def test_what_is_left_of_the_clients_timeout_goes_on() -> None:
    (head,) = read(with_headers(b"X-Request-Timeout-Ms: 500")).heads
    assert sent(head)[b"x-request-timeout-ms"] == b"500"
    assert sent(head, Held(200, is_cold=True))[b"x-request-timeout-ms"] == b"300"
    assert sent(head, Held(600, is_cold=True))[b"x-request-timeout-ms"] == b"1"
    (head,) = read(with_headers(b"X-Request-Timeout-Ms: 249.99999999997")).heads
    assert sent(head)[b"x-request-timeout-ms"] == b"249"


def test_the_same_head_again_is_the_same_request() -> None:
    sink = read(GET, GET, GET + GET)
    assert len({id(head) for head in sink.heads}) == 1
    assert len(sink.heads) == 4
    other = GET.replace(b"/", b"/x", 1)
    assert [head.url for head in read(GET, other, GET).heads] == [b"/", b"/x", b"/"]


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        (b"http://There.example/a?b", b"there.example", b"/a?b"),
        (b"http://there:81", b"there:81", b"/"),
        (b"https://there:443/", b"there:443", b"/"),
    ],
)
def test_an_absolute_target_names_the_host(url: bytes, host: bytes, path: bytes) -> None:
    (head,) = read(with_headers(url=url)).heads
    assert (head.host, head.url) == (host, path)
    assert sent(head)[b"host"] == host


def test_options_of_everything() -> None:
    (head,) = read(with_headers(method=b"OPTIONS", url=b"*")).heads
    assert head.url == b"*"


def test_http10_is_passed_on_as_such_and_is_the_last() -> None:
    sink = read(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET)
    (head,) = sink.heads
    assert not head.keep_alive
    assert head.host == b""
    assert head.encode(b"/", b"", b"made", None).startswith(b"GET / HTTP/1.0\r\n")
    assert b"onnection" not in head.encode(b"/", b"", b"made", None)


# --- bodies and order


def test_bodies_by_length_and_by_chunks() -> None:
    chunked = b"3\r\nabc\r\n0\r\nT: x\r\n\r\n"
    sink = read(
        with_headers(b"Content-Length: 3") + b"abc",
        with_headers(b"Transfer-Encoding: Chunked") + chunked,
        with_headers(b"Content-Length: 0"),
    )
    assert sink.bodies == [b"abc", chunked, b""]
    assert sink.complete == [True] * 3
    assert [head.chunked for head in sink.heads] == [False, True, False]
    assert sent(sink.heads[1])[b"transfer-encoding"] == b"Chunked"


def test_what_follows_the_last_request_is_ignored() -> None:
    assert len(read(with_headers(b"Connection: close"), GET, b"\x00rubbish").heads) == 1
    assert len(read(with_headers(b"Connection: close") + GET).heads) == 1


def test_empty_lines_between_requests_are_skipped() -> None:
    assert len(read(b"\r\n\r\n" + GET + b"\r\n", b"\r", b"\n" + GET).heads) == 2


def test_paused_it_keeps_what_follows() -> None:
    sink = Sink(pauses_at=2)
    sink.reader = reader = RequestReader(sink, b"")
    second = with_headers(b"Content-Length: 3", url=b"/2")
    reader.feed(GET + second + b"a")
    assert (len(sink.heads), sink.complete) == (2, [True, False])
    reader.feed(b"bc" + GET)
    assert sink.bodies == [b"", b"a"]
    sink.pauses_at = 10
    reader.resume()
    assert sink.bodies == [b"", b"abc", b""]
    assert all(sink.complete)


def test_after_an_upgrade_the_rest_is_not_http() -> None:
    sink = Sink(pauses_at=1)
    sink.reader = reader = RequestReader(sink, b"")
    reader.feed(with_headers(b"Connection: Upgrade", b"Upgrade: WebSocket") + b"\x81\x05")
    reader.feed(b"hello")
    (head,) = sink.heads
    assert head.upgrade == b"WebSocket"
    assert sent(head)[b"upgrade"] == b"WebSocket"
    assert sent(head)[b"connection"] == b"upgrade"
    assert reader.take_rest() == b"\x81\x05hello"


@pytest.mark.parametrize(
    "lines",
    [
        (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: x"),
        (b"Connection: upgrade", b"Upgrade: HTTP/2.0"),
        (b"Connection: upgrade", b"Upgrade: TLS/1.0"),
        (b"Upgrade: websocket",),
        (b"Connection: upgrade",),
        (b"Connection: upgrade", b"Upgrade: websocket", b"Content-Length: 3"),
    ],
)
def test_no_upgrade_to_other_http_nor_with_a_body_nor_half_asked(lines: tuple[bytes, ...]) -> None:
    body = b"abc" if b"Content-Length: 3" in lines else b""
    sink = read(with_headers(*lines) + body + GET)
    assert [head.upgrade for head in sink.heads] == [b"", b""]
    assert sink.bodies == [body, b""]
    assert not {b"upgrade", b"connection", b"http2-settings"} & set(sent(sink.heads[0]))


def test_whether_a_head_is_arriving() -> None:
    reader = RequestReader(Sink(), b"")
    assert not reader.is_in_head
    reader.feed(GET[:-1])
    assert reader.is_in_head
    reader.feed(GET[-1:])
    assert not reader.is_in_head


# --- what is refused


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET foo HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://a:b:c/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (with_headers(b"Host: b"), 400),
        (with_headers(b"X y: b"), 400),
        (with_headers(b"X : b"), 400),
        (with_headers(b": b"), 400),
        (with_headers(b"X: b\r\n folded"), 400),
        (with_headers(b"X: a\x00b"), 400),
        (with_headers(b"X: a\rb"), 400),
        (with_headers(b"Content-Length: 3", b"Transfer-Encoding: chunked"), 400),
        (with_headers(b"Transfer-Encoding: chunked", b"Content-Length: 3"), 400),
        (with_headers(b"Content-Length: 3", b"Content-Length: 3"), 400),
        (with_headers(b"Content-Length: 3", b"Content-Length: 4"), 400),
        (with_headers(b"Content-Length: 3, 3"), 400),
        (with_headers(b"Content-Length: +3"), 400),
        (with_headers(b"Content-Length: 0x3"), 400),
        (with_headers(b"Content-Length: -3"), 400),
        (with_headers(b"Content-Length:"), 400),
        (with_headers(b"Content-Length: 99999999999999999999999"), 400),
        (with_headers(b"Transfer-Encoding: xchunked"), 400),
        (with_headers(b"Transfer-Encoding: gzip, chunked"), 501),
        (with_headers(b"Transfer-Encoding: chunked, gzip"), 400),
        (with_headers(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
        (with_headers(b"Transfer-Encoding: \x0bchunked"), 400),
        (with_headers(b"Transfer-Encoding : chunked"), 400),
        (with_headers(b"Transfer-Encoding: chunked", version=b"1.0"), 400),
        (with_headers(b"Transfer-Encoding: chunked") + b"3\nabc\n0\n\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (with_headers(b"X-Request-Timeout-Ms: soon"), 400),
        (with_headers(b"X-Request-Timeout-Ms: 0"), 400),
        (with_headers(b"X-Request-Timeout-Ms: 0.0"), 400),
        (with_headers(b"X-Request-Timeout-Ms: -1"), 400),
        (with_headers(b"X-Request-Timeout-Ms: inf"), 400),
        (with_headers(b"X-Request-Timeout-Ms: " + b"9" * 5000), 400),
        (with_headers(b"Content-Length: " + b"9" * 5000), 400),
        (with_headers(b"X-Request-Timeout-Ms: 1", b"X-Request-Timeout-Ms: 2"), 400),
        (with_headers(b"X: " + b"a" * 70_000), 431),
        (with_headers(*[b"X: a"] * 20_000), 431),
        (with_headers(url=b"/" + b"a" * 70_000), 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70_000, 431),
    ],
)
def test_malformed_requests_are_refused(data: bytes, status: int) -> None:
    for piece_bytes in (len(data), max(1, len(data) // 40), 1 + len(data) // 1000):
        with pytest.raises(WireError) as raised:
            read(*(data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)))
        assert raised.value.status == status


def test_a_refusal_comes_after_the_requests_before_it() -> None:
    sink = Sink()
    reader = RequestReader(sink, b"")
    with pytest.raises(WireError):
        reader.feed(GET + GET + b"rubbish\r\n\r\n")
    assert len(sink.heads) == 2


def test_a_head_of_almost_64_kib_is_accepted() -> None:
    big = with_headers(b"X: " + b"a" * 65_000)
    assert len(read(big, GET).heads) == 2
    assert len(read(*(big[at : at + 1000] for at in range(0, len(big), 1000))).heads) == 1


# --- any pieces

TOKENS = st.text("abcdefgXYZ-0123456789", min_size=1, max_size=10).map(str.encode)
VALUES = st.text('abc XYZ,;="/\t', max_size=20).map(lambda text: text.strip().encode())


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A well-formed request, and its body in its framing."""
    lines = [b"X-%b: %b" % (draw(TOKENS), draw(VALUES)) for _ in range(draw(st.integers(0, 3)))]
    body = draw(st.binary(max_size=40))
    kind = draw(st.sampled_from(["none", "length", "chunked"]))
    if kind == "none":
        body = b""
    elif kind == "length":
        lines.append(b"content-length: %d" % len(body))
    else:
        lines.append(b"Transfer-Encoding: chunked")
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return with_headers(*lines, method=b"POST", url=b"/" + draw(TOKENS)) + body, body


@settings(max_examples=100, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=4), st.data())
def test_any_requests_in_any_pieces(made: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(raw for raw, _ in made)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    sink = read(*pieces)
    whole = read(*(raw for raw, _ in made))
    assert sink.bodies == whole.bodies == [body for _, body in made]
    assert [head.encode(b"/", b"", b"i", None) for head in sink.heads] == [
        head.encode(b"/", b"", b"i", None) for head in whole.heads
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([b"GET / HTTP/1.1", b"\r\n", b"Host: a", b":", b" ", b"\n", b"\0", GET]), max_size=12))
def test_rubbish_is_refused_or_read_but_breaks_nothing(parts: list[bytes]) -> None:
    with contextlib.suppress(WireError):
        assert all(head.method == b"GET" for head in read(*parts).heads)
