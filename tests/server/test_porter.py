"""Who answers while an instance's code is imported."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from faas.server.porter import Porter, answer


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
        porter._answer(ours)


@pytest.mark.parametrize("head", [b"", b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01 noise \xff\r\n\r\n"])
def test_what_is_no_request_is_answered_too(head):
    assert answer(head).startswith(b"HTTP/1.1 503 ")
