import array
import os
import socket

import msgspec
import pytest

from warmpool import protocol
from warmpool.errors import ProtocolError, RequestInvalid
from warmpool.protocol import Adopt, Exited, Fork, Request


@pytest.fixture
def sockets():
    ours, theirs = protocol.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def file(tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        yield file


def test_messages_and_descriptors_arrive_together_and_in_order(sockets, file):
    ours, theirs = sockets
    request = Request(
        entry="a:b", payload=b"x", fds={"one": file.fileno(), "two": 2}, env={"A": None}, sys_path=("/p",)
    )
    protocol.send(ours, Fork(id=1, request=request), [file.fileno(), 2])
    protocol.send(ours, Fork(id=2, request=None))
    first, fds = protocol.receive(theirs, protocol.ZYGOTE_INBOX)
    second, none = protocol.receive(theirs, protocol.ZYGOTE_INBOX)
    try:
        assert (first, second, none) == (Fork(id=1, request=request), Fork(id=2, request=None), [])
        assert len(fds) == 2
        assert os.path.sameopenfile(fds[0], file.fileno())
        assert not any(os.get_inheritable(fd) for fd in fds)
        unpacked = protocol.unpack(first.request, fds, payload_in_memfd=False)
        assert unpacked == msgspec.structs.replace(request, fds={"one": fds[0], "two": fds[1]})
    finally:
        protocol.close_all(fds)


@pytest.mark.parametrize("num_bytes", [0, protocol.INLINE_PAYLOAD_BYTES, protocol.INLINE_PAYLOAD_BYTES + 1, 5_000_000])
def test_a_big_payload_travels_in_a_memfd(sockets, num_bytes):
    ours, theirs = sockets
    request = Request(entry="a:b", payload=os.urandom(num_bytes))
    packed = protocol.pack(request)
    assert packed.in_memfd == (num_bytes > protocol.INLINE_PAYLOAD_BYTES)
    protocol.send(ours, Adopt(request=packed.request, payload_in_memfd=packed.in_memfd), packed.fds)
    packed.close()
    message, received = protocol.receive(theirs, protocol.WORKER_INBOX)
    assert protocol.unpack(message.request, received, message.payload_in_memfd) == request


def test_a_message_that_is_too_big_is_not_sent(sockets):
    ours, theirs = sockets
    with pytest.raises(ProtocolError, match=r"a Fork message of 200\d\d\d bytes is over the limit of 131072"):
        protocol.send(ours, Fork(id=1, request=Request(entry="a:" + "b" * 200_000)))
    with pytest.raises(ProtocolError, match="254 descriptors"):
        protocol.send(ours, Fork(id=1, request=None), [2] * 254)
    protocol.send(ours, Fork(id=2, request=None), [2] * protocol.MAX_DESCRIPTORS)
    _, fds = protocol.receive(theirs, protocol.ZYGOTE_INBOX)
    assert len(fds) == protocol.MAX_DESCRIPTORS
    protocol.close_all(fds)


@pytest.mark.parametrize("body", [b"\xc1", b"nonsense", msgspec.msgpack.encode({"type": "Wish"}), b"x" * 200_000])
def test_a_message_that_cannot_be_read_leaves_no_descriptor_open(sockets, body):
    ours, theirs = sockets
    before = len(os.listdir("/proc/self/fd"))
    ours.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
    with pytest.raises(ProtocolError):
        protocol.receive(theirs, protocol.ZYGOTE_INBOX)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_inbox_of_another_is_refused(sockets):
    ours, theirs = sockets
    protocol.send(ours, Exited(id=1, status=0))
    with pytest.raises(ProtocolError, match="cannot be read"):
        protocol.receive(theirs, protocol.ZYGOTE_INBOX)


def test_a_peer_that_is_gone(sockets):
    ours, theirs = sockets
    theirs.close()
    with pytest.raises(EOFError):
        protocol.receive(ours, protocol.CLIENT_INBOX)
    with pytest.raises(BrokenPipeError):
        protocol.send(ours, Fork(id=1, request=None))
    ours.close()
    with pytest.raises(BrokenPipeError):
        protocol.send(ours, Fork(id=1, request=None))


def test_a_peer_that_left_a_message_unread(sockets):
    ours, theirs = sockets
    protocol.send(ours, Fork(id=1, request=None))
    theirs.close()
    with pytest.raises(BrokenPipeError):
        protocol.send(ours, Fork(id=2, request=None))
    with pytest.raises(EOFError):
        protocol.receive(ours, protocol.CLIENT_INBOX)


def test_a_peer_that_left_a_message_unread_is_noticed_by_receiving(sockets):
    ours, theirs = sockets
    protocol.send(ours, Fork(id=1, request=None))
    theirs.close()
    with pytest.raises(EOFError):
        protocol.receive(ours, protocol.CLIENT_INBOX)


def test_what_a_peer_has_sent_is_received_though_it_left_a_message_unread(sockets):
    ours, theirs = sockets
    protocol.send(ours, Fork(id=1, request=None))
    protocol.send(theirs, Exited(id=1, status=7))
    theirs.close()
    assert protocol.receive(ours, protocol.CLIENT_INBOX) == (Exited(id=1, status=7), [])
    with pytest.raises(EOFError):
        protocol.receive(ours, protocol.CLIENT_INBOX)


def test_a_full_socket_blocks_nobody(sockets):
    ours, _ = sockets
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        send_for_ever(ours)


def send_for_ever(sock: socket.socket) -> None:
    while True:
        protocol.send(sock, Exited(id=1, status=0))


def test_a_request_with_other_descriptors_than_it_names_is_refused():
    with pytest.raises(ProtocolError, match="0 descriptors came with a message of 1"):
        protocol.unpack(Request(entry="a:b", fds={"out": 3}), [], payload_in_memfd=False)


@pytest.mark.parametrize("entry", ["", "module", "module:", ":function", "package.module.function"])
def test_an_entry_that_names_no_function_is_refused(entry):
    with pytest.raises(RequestInvalid, match="names no function"):
        Request(entry=entry)


def test_a_request_shares_the_processors_with_itself_at_least():
    with pytest.raises(RequestInvalid, match="num_workers is 0"):
        Request(entry="a:b", num_workers=0)
