import pytest
from hypothesis import given
from hypothesis import strategies as st

from faas.platform.chunks import ChunkScanner
from faas.platform.wire import WireError


def scan(*pieces: bytes) -> tuple[int, bool]:
    """Bytes that belong to the body, and whether it ended."""
    scanner, num = ChunkScanner(400), 0
    for piece in pieces:
        num += scanner.feed(piece)
    return num, scanner.is_done


@pytest.mark.parametrize(
    "body",
    [
        b"0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"00A\r\n0123456789\r\n0\r\n\r\n",
        b"3;name=value\r\nabc\r\n0;x\r\n\r\n",
        b"3 \r\nabc\r\n0\r\nDigest: x\r\nA:\r\n\r\n",
        b"2\r\n\r\n\r\n0\r\n\r\n",
    ],
)
def test_a_body_ends_where_it_ends(body: bytes) -> None:
    assert scan(body + b"more") == (len(body), True)
    assert scan(*(bytes([byte]) for byte in body), b"more") == (len(body), True)
    assert scan(body[:-1]) == (len(body) - 1, False)


@pytest.mark.parametrize(
    "body",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b"3\nabc\r\n",
        b"3\r\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"3;a\rb\r\nabc\r\n",
        b"1000000000000000\r\n",
        b"0\r\nno trailer\r\n",
        b"0\r\n folded\r\n",
        b"0\r\nA: b\n",
        b"0\r\n\n",
        b"1" * 5000,
        b"1;" + b"a" * 5000 + b"\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(WireError, match="malformed") as raised:
        scan(body)
    assert raised.value.status == 400


def test_trailers_are_bounded() -> None:
    with pytest.raises(WireError):
        scan(b"0\r\n", *[b"A: " + b"b" * 1000 + b"\r\n"] * 70)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.data())
def test_any_chunks_in_any_pieces(chunks: list[bytes], data: st.DataObject) -> None:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    stream = body + b"GET / HTTP/1.1\r\n\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    scanner, num = ChunkScanner(400), 0
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if not scanner.is_done:
            num += scanner.feed(stream[start:end])
    assert (num, scanner.is_done) == (len(body), True)
