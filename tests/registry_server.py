"""A registry on loopback: Debian's `docker-registry`, which is the distribution project's, and a proxy that interferes.

scripts/setup puts the program into .venv/bin where apt-get is there. Tests that need it are skipped without.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_LISTENS = re.compile(rb"listening on 127\.0\.0\.1:(\d+)")
_beside = Path(sys.executable).with_name("docker-registry")
PROGRAM = str(_beside) if _beside.exists() else shutil.which("docker-registry")

needed = pytest.mark.skipif(
    PROGRAM is None, reason="docker-registry is not installed (scripts/setup does it where apt-get is there)"
)


@dataclass(frozen=True)
class Registry:
    """A registry that runs; what it holds is in `root`."""

    host: str
    root: Path

    def blob(self, digest: str) -> Path:
        """The file of a blob."""
        return self._v2 / "blobs" / "sha256" / digest[7:9] / digest[7:] / "data"

    def forget(self, repository: str, digest: str) -> None:
        """Lose a blob, as a broken storage does."""
        shutil.rmtree(self._v2 / "repositories" / repository / "_layers" / "sha256" / digest[7:])
        shutil.rmtree(self.blob(digest).parent, ignore_errors=True)

    @property
    def _v2(self) -> Path:
        return self.root / "docker" / "registry" / "v2"


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    """Run one on a free port, with its files in `folder`."""
    assert PROGRAM is not None
    root = folder / "registry"
    root.mkdir(parents=True)
    config = folder / "registry.yml"
    config.write_text(
        json.dumps(  # JSON is YAML
            {
                "version": 0.1,
                "log": {"level": "info", "accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(root)}, "delete": {"enabled": True}},
                "http": {"addr": "127.0.0.1:0", "secret": "tests"},
            }
        )
    )
    process = subprocess.Popen([PROGRAM, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        yield Registry(f"127.0.0.1:{_port(process.stderr)}", root)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def _port(stderr: Any) -> int:
    said = b""
    for line in stderr:
        said += line
        if found := _LISTENS.search(line):
            threading.Thread(target=_drain, args=(stderr,), daemon=True).start()
            return int(found[1])
    raise RuntimeError(f"docker-registry did not start: {said.decode()}")


def _drain(stream: Any) -> None:
    with contextlib.suppress(ValueError, OSError):
        for _ in stream:
            pass


@dataclass(frozen=True)
class Seen:
    """A request that came to the proxy; `num_bytes` is what its body is said to have."""

    method: str
    path: str
    num_bytes: int
    headers: dict[str, str]

    @property
    def writes(self) -> bool:
        """Whether it brings content."""
        return self.method in ("PUT", "PATCH") and self.num_bytes > 0


@dataclass(frozen=True)
class Fault:
    """What the proxy does to a request.

    `status` answers in the registry's place; `cut_after` passes on so many bytes of the body and then breaks both
    connections; `mute` passes all on and breaks the connection in place of the answer.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    mute: bool = False


class Proxy:
    """Passes requests on to a registry, keeps what it saw, and does what `rule` says."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.host = ""
        self.seen: list[Seen] = []
        self.rule: Callable[[Seen], Fault | None] = lambda seen: None
        self.after: Callable[[Seen], None] = lambda seen: None

    @property
    def writes(self) -> list[Seen]:
        """The requests that brought content."""
        return [one for one in self.seen if one.writes]

    @property
    def blob_bytes(self) -> int:
        """The bytes of blobs that came."""
        return sum(one.num_bytes for one in self.writes if "/blobs/" in one.path)


@contextlib.contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy on a free port."""
    held = Proxy(upstream)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            headers = dict(self.headers.items())
            length = int(self.headers.get("content-length", 0))
            seen = Seen(self.command, self.path, length, {name.lower(): value for name, value in headers.items()})
            held.seen.append(seen)
            fault = held.rule(seen) or Fault()
            if fault.status is not None:
                self.rfile.read(length)
                self._answer(fault.status, fault.headers.items(), b"")
                return
            upstream = http.client.HTTPConnection(held.upstream, timeout=60)
            try:
                self._pass_on(upstream, headers, length, fault)
            finally:
                upstream.close()
            held.after(seen)

        def _pass_on(
            self, upstream: http.client.HTTPConnection, headers: dict[str, str], length: int, fault: Fault
        ) -> None:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                upstream.putheader(name, value)
            upstream.endheaders()
            left = length if fault.cut_after is None else min(length, fault.cut_after)
            while left and (piece := self.rfile.read(min(left, 1 << 16))):
                upstream.send(piece)
                left -= len(piece)
            if fault.cut_after is not None:
                self._break()
                return
            answer = upstream.getresponse()
            body = answer.read()
            if fault.mute:
                self._break()
                return
            self._answer(answer.status, answer.getheaders(), body)

        def _answer(self, status: int, headers: Any, body: bytes) -> None:
            self.send_response(status)
            of_body = ("content-length", "transfer-encoding", "connection", "date", "server")
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length":
                    length = value
                if name.lower() not in of_body:
                    self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _break(self) -> None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _do

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # connections that break are what it is for

    server = Server(("127.0.0.1", 0), Handler)
    held.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def digest_of(content: bytes) -> str:
    """As registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
