"""A connection to an instance, against a bare socket."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from faas.platform.back import BackConnection
from faas.platform.endpoint import Endpoint
from tests.platform.stub import until

LARGE = bytes(range(256)) * 8192  # 2 MiB: more than a socket takes at once


class Caller:
    def __init__(self) -> None:
        self.data = b""
        self.num_drained = 0
        self.losses: list[bool] = []

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, *, unread: bool) -> None:
        self.losses.append(unread)

    def drained(self) -> None:
        self.num_drained += 1


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(tmp_path / "instance.sock"))
        sock.listen(16)
        yield sock


def connect(listener: socket.socket) -> tuple[BackConnection, socket.socket, Caller]:
    """A connection that has sent a first request, the instance's end of it, and who made it."""
    back = BackConnection(Endpoint(listener.getsockname()), asyncio.get_running_loop())
    accepted, _ = listener.accept()
    accepted.setblocking(False)
    caller = Caller()
    back.begin(caller, b"first")
    assert accepted.recv(100) == b"first"
    return back, accepted, caller


async def read(accepted: socket.socket, num_bytes: int) -> bytes:
    data = b""
    while len(data) < num_bytes:
        data += await asyncio.get_running_loop().sock_recv(accepted, num_bytes)
    return data


async def test_what_an_instance_does_not_read_waits_and_is_told_of(listener: socket.socket) -> None:
    back, accepted, caller = connect(listener)
    with accepted:
        back.send(LARGE)
        assert 0 < back.num_buffered_bytes < len(LARGE)
        back.send(b"more")
        assert await read(accepted, len(LARGE) + 4) == LARGE + b"more"
        await until(lambda: caller.num_drained == 1)
        assert back.num_buffered_bytes == 0
        back.send(b"again")
        assert await read(accepted, 5) == b"again"
    back.close()


async def test_a_large_request_is_begun_in_part(listener: socket.socket) -> None:
    back = BackConnection(Endpoint(listener.getsockname()), asyncio.get_running_loop())
    accepted, _ = listener.accept()
    accepted.setblocking(False)
    with accepted:
        back.begin(Caller(), LARGE)
        assert back.num_buffered_bytes > 0
        assert await read(accepted, len(LARGE)) == LARGE
    back.close()


async def test_a_full_socket_takes_nothing_more(listener: socket.socket) -> None:
    back, accepted, _ = connect(listener)
    with accepted:
        with contextlib.suppress(BlockingIOError):
            while back._sock.send(b"x" * 1000):
                pass
        back.send(b"waits")
        assert back.num_buffered_bytes == 5
    back.close()


async def test_what_the_instance_sent_before_it_closed_is_read_though_it_reads_no_more(listener: socket.socket) -> None:
    back, accepted, caller = connect(listener)
    accepted.sendall(b"too large")
    accepted.close()
    back.send(LARGE)
    back.send(LARGE)
    assert back.num_buffered_bytes == 0, "dropped: nobody will read it"
    await until(lambda: bool(caller.losses))
    assert caller.data == b"too large"
    assert back not in back.endpoint.connections


async def test_an_instance_that_closes_while_much_is_to_be_sent(listener: socket.socket) -> None:
    back, accepted, caller = connect(listener)
    back.send(LARGE)
    accepted.sendall(b"enough")
    accepted.close()
    await until(lambda: bool(caller.losses))
    assert caller.data == b"enough"
    assert caller.losses == [True]


@pytest.mark.parametrize("unread", [False, True])
async def test_whether_the_last_bytes_were_read_is_known(listener: socket.socket, unread: bool) -> None:
    back, accepted, caller = connect(listener)
    if unread:
        back.send(b"unread")
    accepted.close()
    await until(lambda: bool(caller.losses))
    assert caller.losses == [unread]


@pytest.mark.parametrize("unread", [False, True])
async def test_it_is_known_of_a_dead_instance_too(listener: socket.socket, unread: bool) -> None:
    back, accepted, caller = connect(listener)
    with accepted:
        if unread:
            back.send(b"unread")
        back.instance_died()
        assert caller.losses == [unread]


async def test_what_a_dead_instance_had_sent_is_read(listener: socket.socket) -> None:
    back, accepted, caller = connect(listener)
    with accepted:
        accepted.sendall(b"the last")
        back.instance_died()
        assert (caller.data, caller.losses) == (b"the last", [False])
    back, accepted, caller = connect(listener)
    back.pause()
    accepted.sendall(b"the last")
    accepted.close()
    back.instance_died()
    assert (caller.data, caller.losses) == (b"", [])
    back.resume()
    await until(lambda: caller.losses == [False])
    assert caller.data == b"the last"


async def test_paused_nothing_is_read(listener: socket.socket) -> None:
    back, accepted, caller = connect(listener)
    with accepted:
        back.pause()
        back.pause()
        accepted.sendall(b"late")
        for _ in range(5):
            await asyncio.sleep(0)
        assert caller.data == b""
        back.resume()
        back.resume()
        await until(lambda: caller.data == b"late")
    back.close()


async def test_given_back_it_is_idle_and_closed_with_its_endpoint(listener: socket.socket) -> None:
    back, accepted, _ = connect(listener)
    with accepted:
        back.pause()
        back.give_back()
        assert back.endpoint.idle == [back]
        accepted.close()
        await until(lambda: not back.endpoint.connections)
        assert back.endpoint.idle == []
        back.close()
        back.pause()
        back.resume()


async def test_with_unsent_bytes_it_is_not_used_again(listener: socket.socket) -> None:
    back, accepted, _ = connect(listener)
    with accepted:
        back.send(LARGE)
        back.give_back()
        assert back.endpoint.idle == []
        assert back.endpoint.connections == set()


async def test_a_connection_that_cannot_be_had_leaves_nothing(tmp_path: Path) -> None:
    endpoint = Endpoint(str(tmp_path / "nobody.sock"))
    with pytest.raises(FileNotFoundError):
        BackConnection(endpoint, asyncio.get_running_loop())
    assert endpoint.connections == set()
