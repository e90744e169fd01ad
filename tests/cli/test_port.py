from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from faas.cli import port as ports
from faas.cli.failure import Failure


def test_port_0_is_a_free_one() -> None:
    with ports.listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert ports.url_of(sock) == f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_an_address_of_version_6_is_written_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        sock = ports.listen("::1", 0)
    except Failure:
        pytest.skip("no IPv6 on the loopback")
    with sock:
        assert ports.url_of(sock).startswith("http://[::1]:")


def test_a_taken_port_names_the_process() -> None:
    with ports.listen("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with pytest.raises(Failure, match=rf"port {port} is taken by .+ \(process {os.getpid()}\)") as caught:
            ports.listen("127.0.0.1", port)
    assert caught.value.then == "--port 0 takes a free one"
    assert caught.value.code == 1


def test_a_connection_from_the_port_is_no_listener() -> None:
    with ports.listen("127.0.0.1", 0) as held, socket.create_connection(held.getsockname()) as client:
        assert ports.holder_of(client.getsockname()[1]) is None


def test_a_process_that_cannot_be_seen_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    row = "  0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1"
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address ...\n{row}\n")
    (tmp_path / "12").mkdir()  # ended meanwhile: it has no descriptors
    assert ports.holder_of(8000, tmp_path) is None
    (tmp_path / "13" / "fd").mkdir(parents=True)
    (tmp_path / "13" / "fd" / "3").symlink_to("socket:[4711]")
    (tmp_path / "13" / "comm").write_text("server\n")
    assert ports.holder_of(8000, tmp_path) == "server (process 13)"
    assert ports.holder_of(8001, tmp_path) is None


@pytest.mark.parametrize(
    ("host", "what"),
    [("no.such.host.invalid", "--host no.such.host.invalid: "), ("192.0.2.1", "is no address of this")],
)
def test_a_host_that_is_not_here_is_a_wrong_call(host: str, what: str) -> None:
    with pytest.raises(Failure, match=what) as caught:
        ports.listen(host, 0)
    assert caught.value.code == 2


def test_any_other_refusal_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(Failure, match=r"cannot listen on 127\.0\.0\.1:80: Permission denied"):
        ports.listen("127.0.0.1", 80)


def test_a_check_finds_a_taken_port_and_takes_no_connection_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with ports.listen("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with pytest.raises(Failure, match=f"port {port} is taken"):
            ports.check("127.0.0.1", port)

    def listen(*_: object) -> None:
        raise AssertionError("who connects now is cut")

    monkeypatch.setattr(socket.socket, "listen", listen)
    ports.check("127.0.0.1", port)
