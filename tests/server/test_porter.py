"""Who answers while an instance's code is imported."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import httpx
import pytest

from faas.server.porter import Porter, answer
from tests.server.answers import echo


@pytest.fixture
def listen():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock


def test_it_is_alive_not_ready_and_says_when_to_come_again(listen):
    url = f"http://127.0.0.1:{listen.getsockname()[1]}"
    with Porter(listen), httpx.Client(base_url=url, trust_env=False, timeout=20) as caller:
        assert caller.get("/livez?verbose").status_code == 200
        for refused in (caller.get("/readyz"), caller.post("/", json={"x": "y" * 300_000}), caller.head("/readyz")):
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["connection"] == "close"


def test_the_socket_is_open_before_and_after(listen):
    with Porter(listen):
        pass
    with socket.create_connection(listen.getsockname(), 5):
        listen.accept()[0].close()


def test_a_caller_who_says_nothing_does_not_hold_its_end(listen):
    caller, ours = socket.socketpair()
    porter = Porter(listen)
    with caller, ours, porter:
        caller.sendall(b"GET /")
        threading.Timer(0.1, porter._wake.close).start()
        porter._attend(ours)


PROBE = b"GET /readyz HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.36\r\n\r\n"


def probe(listen: socket.socket) -> socket.socket:
    """Look for readiness as a kubelet does, and have that held."""
    caller = socket.create_connection(listen.getsockname(), 20)
    caller.sendall(PROBE)
    return caller


def be_answered(listen: socket.socket) -> None:
    """Be answered, after everybody who came before."""
    assert httpx.get(f"http://127.0.0.1:{listen.getsockname()[1]}/livez", trust_env=False).status_code == 200


@pytest.mark.anyio
async def test_a_probe_of_the_kubelet_is_left_to_the_server(listen, serving):
    with Porter(listen) as porter:
        caller = probe(listen)
        await asyncio.to_thread(be_answered, listen)
    ((_, received),) = porter.held
    assert received == PROBE
    with caller:
        async with serving(echo, ready_first=False, held=porter.held):
            assert (await asyncio.to_thread(caller.recv, 65_536)).startswith(b"HTTP/1.1 200 ")
        assert await asyncio.to_thread(caller.recv, 1) == b""


def test_probes_are_given_up_that_are_too_many_or_for_nothing(listen):
    porter = Porter(listen)
    with contextlib.ExitStack() as leaving:
        callers = [leaving.enter_context(probe(listen)) for _ in range(5)]
        porter.__enter__()
        be_answered(listen)
        held = [connection for connection, _ in porter.held]
        assert len(held) == 4
        assert callers[0].recv(1) == b"", "a kubelet has given up the first one long ago"
        porter.__exit__(ImportError)
        assert [caller.recv(1) for caller in callers] == [b""] * 5
    assert all(connection.fileno() == -1 for connection in held)


@pytest.mark.parametrize("head", [b"", b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01 noise \xff\r\n\r\n"])
def test_what_is_no_request_is_answered_too(head):
    assert answer(head).startswith(b"HTTP/1.1 503 ")
