"""Where the command line begins."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from faas.cli import entry
from faas.cli import main as command_line


@pytest.fixture
def port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def signals():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("signals")
def test_a_containers_port_is_open_before_the_commands_are_there(port, monkeypatch):
    def connect() -> None:
        socket.create_connection(("127.0.0.1", port), 5).close()

    monkeypatch.setattr(sys, "argv", ["faas", "serve", "--bundle", "/opt/faas/bundle"])
    monkeypatch.setenv("PORT", str(port))
    monkeypatch.setattr(command_line, "main", connect)
    entry.main()
    opened = entry.take_port()
    assert opened is not None
    with opened:
        assert opened.getsockname() == ("0.0.0.0", port)
    assert entry.take_port() is None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["serve", "app.py"],
        ["serve", "--bundle"],
        ["serve", "--bundle", "x", "--port", "1"],
        ["list", "--bundle", "x"],
    ],
)
def test_other_commands_open_none(words, port):
    entry.open_port(words, {"PORT": str(port)})
    assert entry.take_port() is None


@pytest.mark.parametrize("said", ["", "http", "-1", "65536", "99999999999999999999"])
def test_a_port_that_is_none_is_left_to_the_command(said):
    entry.open_port(["serve", "--bundle", "x"], {"PORT": said})
    assert entry.take_port() is None


def test_a_port_that_is_taken_is_left_to_the_command(port):
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        entry.open_port(["serve", "--bundle", "x"], {"PORT": str(port)})
        assert entry.take_port() is None


def test_the_package_can_be_run_and_takes_no_module_of_the_current_folder_for_ours(tmp_path):
    (tmp_path / "deploy.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "snapshot.py").write_text("raise SystemExit('not ours')")
    command = [sys.executable, "-m", "faas", "snapshot", "create", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Set up the functions of TARGET" in done.stdout
