"""The reading of answers, without sockets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faas.platform.response import ResponseReader, is_plain
from faas.platform.wire import WireError


def answer(*lines: bytes, status: bytes = b"200 OK", body: bytes = b"") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *lines, b"", body))


def read(
    *pieces: bytes, close: bool = False, is_head: bool = False, may_upgrade: bool = False
) -> tuple[bytes, ResponseReader]:
    reader = ResponseReader(is_head=is_head, may_upgrade=may_upgrade)
    return b"".join(reader.feed(piece, close=close) for piece in pieces), reader


def test_an_answer_passes_as_it_came() -> None:
    raw = answer(b"Content-Length: 3", b"X-Y: z", body=b"abc")
    out, reader = read(raw)
    assert out == raw
    assert (reader.status, reader.is_done, reader.is_reusable) == (b"200", True, True)


def test_a_body_in_pieces() -> None:
    raw = answer(b"content-length: 6", body=b"abc")
    out, reader = read(raw)
    assert (out, reader.is_done) == (raw, False)
    assert reader.feed(b"def", close=False) == b"def"
    assert reader.is_done


def test_a_chunked_body() -> None:
    raw = answer(b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n")
    out, reader = read(raw[:-1])
    assert (out, reader.is_done) == (raw[:-1], False)
    assert reader.feed(raw[-1:], close=False) == b"\n"
    assert (reader.is_done, reader.is_reusable) == (True, True)


def test_an_answer_without_a_length_ends_with_its_connection_and_so_does_the_clients() -> None:
    out, reader = read(answer(body=b"abc"), b"def")
    assert out == answer(b"connection: close", body=b"abcdef")
    assert (reader.is_done, reader.ends_with_connection, reader.is_reusable) == (False, True, False)


@pytest.mark.parametrize("lines", [(b"Content-Length: 5",), (b"Transfer-Encoding: chunked",), ()])
@pytest.mark.parametrize(("status", "is_head"), [(b"200 OK", True), (b"204 No Content", False), (b"304 Same", False)])
def test_answers_that_have_no_body_whatever_they_say(lines: tuple[bytes, ...], status: bytes, is_head: bool) -> None:
    raw = answer(*lines, status=status)
    out, reader = read(raw, is_head=is_head)
    assert out == raw
    assert (reader.is_done, reader.is_reusable, reader.ends_with_connection) == (True, True, False)


def test_interim_answers_pass() -> None:
    raw = answer(status=b"100 Continue") + answer(b"Link: x", status=b"103 Early Hints")
    out, reader = read(raw, answer(b"content-length: 1", body=b"a"))
    assert out == raw + answer(b"content-length: 1", body=b"a")
    assert (reader.status, reader.is_done) == (b"200", True)


def test_headers_of_the_instances_hop_stay_there() -> None:
    out, reader = read(
        answer(
            b"Connection: keep-alive, X-Private",
            b"Keep-Alive: timeout=5",
            b"X-Private: secret",
            b"Content-Length: 0",
            b"X-Public: yes",
        )
    )
    assert out == answer(b"Content-Length: 0", b"X-Public: yes")
    assert (reader.is_done, reader.is_reusable) == (True, True)


def test_an_instance_that_closes_is_not_used_again_but_its_clients_connection_is() -> None:
    out, reader = read(answer(b"connection: Close", b"content-length: 0"))
    assert out == answer(b"content-length: 0")
    assert not reader.is_reusable


def test_the_last_answer_of_a_connection_says_so() -> None:
    out, reader = read(answer(b"content-length: 1", b"connection: keep-alive", body=b"a"), close=True)
    assert out == answer(b"content-length: 1", b"connection: close", body=b"a")
    assert reader.is_reusable, "the client closes, the instance need not"


def test_http10_instances_are_not_used_again() -> None:
    raw = b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na"
    out, reader = read(raw)
    assert (out, reader.is_done, reader.is_reusable) == (raw, True, False)


@pytest.mark.parametrize(
    "raw",
    [
        answer(b"content-length: 1", body=b"a"),
        answer(b"content-length: 0"),
        answer(b"transfer-encoding: chunked", body=b"0\r\n\r\n"),
        answer(status=b"204 None"),
    ],
)
def test_what_follows_an_answer_reaches_nobody(raw: bytes) -> None:
    out, reader = read(raw + b"HTTP/1.1 200 Forged\r\n\r\n")
    assert out == raw
    assert (reader.is_done, reader.is_reusable) == (True, False)


def test_a_change_of_protocol() -> None:
    raw = answer(b"Connection: Upgrade", b"Upgrade: websocket", status=b"101 Switching Protocols")
    out, reader = read(raw + b"\x81\x00", b"anything", may_upgrade=True)
    assert out == raw + b"\x81\x00anything"
    assert (reader.is_upgraded, reader.is_done, reader.status) == (True, False, b"101")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        answer(status=b"101 Switching Protocols"),
        answer(b"content-length: x"),
        answer(b"content-length: " + b"1" * 5000),
        answer(b"content-length: 1, 1"),
        answer(b"content-length: 1", b"content-length: 2"),
        answer(b"content-length: 1", b"transfer-encoding: chunked"),
        answer(b"transfer-encoding: gzip"),
        answer(b"transfer-encoding: chunked", body=b"no size\r\n"),
        answer(b"x: " + b"a" * 70_000)[:-4],
    ],
)
def test_nonsense_is_a_bad_gateway(raw: bytes) -> None:
    with pytest.raises(WireError) as raised:
        read(raw)
    assert raised.value.status == 502


def test_the_same_length_twice_is_one_length() -> None:
    _, reader = read(answer(b"content-length: 1", b"Content-Length: 1", body=b"a"))
    assert reader.is_done


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(
        [
            answer(b"Content-Length: 5", b"Connection: keep-alive", body=b"hello"),
            answer(b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n"),
            answer(status=b"100 Continue") + answer(b"content-length: 0"),
            answer(body=b"until the end"),
        ]
    ),
    st.data(),
)
def test_any_pieces(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    out, reader = read(*pieces)
    whole, at_once = read(raw)
    assert out == whole
    assert (reader.status, reader.is_done, reader.is_reusable) == (
        at_once.status,
        at_once.is_done,
        at_once.is_reusable,
    )


@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"]
)
def test_an_interim_answer_by_itself_does_not_end_the_answer(interim: bytes) -> None:
    reader = ResponseReader(is_head=False, may_upgrade=False)
    assert reader.feed(interim, close=False) == interim
    assert (reader.is_done, reader.status) == (False, b"")
    rest = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
    assert reader.feed(rest, close=False) == rest
    assert (reader.is_done, reader.is_reusable) == (True, True)


def test_a_granted_upgrade_by_itself_does_not_end_the_answer() -> None:
    reader = ResponseReader(is_head=False, may_upgrade=True)
    reader.feed(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n", close=False)
    assert (reader.is_done, reader.is_upgraded) == (False, True)
    assert reader.feed(b"\x81\x01x", close=False) == b"\x81\x01x"


@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 20 OK", b"HTTP/1.1 099 OK", b"HTTP/1.1 200OK", b"HTTP/2.0 200 OK", b"HTTP/1.1 2x0 OK"]
)
def test_a_status_line_of_another_kind_is_refused(line: bytes) -> None:
    with pytest.raises(WireError, match=r"not HTTP/1\.1"):
        ResponseReader(is_head=False, may_upgrade=False).feed(line + b"\r\n\r\n", close=False)


WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nContent-Length: 3\r\nserver-timing: x\r\n\r\nabc"


@pytest.mark.parametrize("plain", [WHOLE, WHOLE.replace(b"200 OK", b"503"), WHOLE.replace(b"200 OK", b"404 ")])
def test_a_whole_answer_with_a_length_and_nothing_of_this_hop_is_plain(plain: bytes) -> None:
    assert is_plain(plain)


@pytest.mark.parametrize(
    "other",
    [
        b"",
        WHOLE[:30],
        WHOLE[:-1],
        WHOLE + b"d",
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WHOLE.replace(b"200 OK", b"100 Continue"),
        WHOLE.replace(b"200 OK", b"101 Switching Protocols"),
        WHOLE.replace(b"200 OK", b"204 No Content"),
        WHOLE.replace(b"200 OK", b"304 Not Modified"),
        WHOLE.replace(b"Length: 3", b"Length: +3"),
        WHOLE.replace(b"Length: 3", b"Length: " + b"0" * 18 + b"3"),
        WHOLE.replace(b"Content-Length: 3\r\n", b""),
        *(
            WHOLE.replace(b"server-timing: x", line)
            for line in (
                b"Connection: close",
                b"connection : keep-alive",
                b"Keep-Alive: timeout=5",
                b"Transfer-Encoding: chunked",
                b"content-length: 3",
                b"content-length: 4",
                b"Upgrade: h2c",
            )
        ),
    ],
)
def test_every_other_answer_is_not(other: bytes) -> None:
    assert not is_plain(other)


@given(
    st.lists(st.sampled_from([b"Content-Length: 3\r\n", b"Connection: close\r\n", b"x: y\r\n", b"\r\n", b"abc", b"a"]))
)
def test_what_is_plain_the_reader_passes_on_as_it_came(parts: list[bytes]) -> None:
    data = b"HTTP/1.1 200 OK\r\n" + b"".join(parts)
    if is_plain(data):
        reader = ResponseReader(is_head=False, may_upgrade=False)
        assert reader.feed(data, close=False) == data
        assert (reader.is_done, reader.is_reusable) == (True, True)
