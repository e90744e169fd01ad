"""Servers that speak S3 on loopback: rclone's, which is a real one, and a stub that fails as it is told to."""

from __future__ import annotations

import contextlib
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

KEY, SECRET = "faas-test-key", "faas-test-secret"
_STARTED = re.compile(rb"Starting s3 server on \[http://127\.0\.0\.1:(\d+)/\]")
_START_WITHIN_S = 30.0


@dataclass(frozen=True)
class S3Server:
    """A server whose buckets are the folders of `root`."""

    endpoint: str
    root: Path

    def environment(self, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """What a process needs to use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_CONFIG_FILE": str(self.root.parent / "no-aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.root.parent / "no-aws-credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextlib.contextmanager
def rclone(folder: Path, *buckets: str) -> Iterator[S3Server]:
    """`rclone serve s3` over a new folder in `folder`, on a free port, with the buckets made.

    It remembers folders that it has looked into: what is changed in them behind its back it does not see.
    """
    root = folder / "s3"
    for bucket in buckets or ("bucket",):
        (root / bucket).mkdir(parents=True)
    program = Path(sys.executable).with_name("rclone")
    command = [str(program if program.exists() else shutil.which("rclone") or "rclone"), "serve", "s3", str(root)]
    command += ["--addr", "127.0.0.1:0", "--auth-key", f"{KEY},{SECRET}", "--etag-hash", ""]
    command += ["--config", str(folder / "no-rclone.conf")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        yield S3Server(f"http://127.0.0.1:{_port(process.stderr)}", root)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def _port(stderr: Any) -> int:
    """Read what the server says until it says its port, and let a thread read the rest, so that it never blocks."""
    deadline, said = monotonic() + _START_WITHIN_S, b""
    while monotonic() < deadline:
        line = stderr.readline()
        said += line
        if found := _STARTED.search(line):
            threading.Thread(target=_drain, args=(stderr,), daemon=True).start()
            return int(found[1])
        if not line:
            break
    raise RuntimeError(f"rclone did not start: {said.decode()}")


@dataclass
class Request:
    """One request to the stub. `access_key`: whose signature it has."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    access_key: str

    @property
    def range(self) -> tuple[int, int] | None:
        """First byte and the one after the last."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return (int(found[1]), int(found[2]) + 1) if found else None


@dataclass(frozen=True)
class Answer:
    """What the stub answers: `cut` sends only so many bytes of the body and then closes the connection."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None

    @classmethod
    def error(cls, status: int, code: str, message: str = "") -> Answer:
        """An error as S3 tells it."""
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message or code}</Message></Error>"
        return cls(status, body.encode(), {"Content-Type": "application/xml"})


Rule = Callable[[Request], Answer | None]


class Stub:
    """Holds objects by path (`/bucket/key`); a rule may answer instead. Every request is kept."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.rule: Rule = lambda request: None
        self.endpoint = ""

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        ruled = self.rule(request)
        return ruled if ruled is not None else self.plain(request)

    def plain(self, request: Request) -> Answer:
        """As a server does that keeps to the protocol."""
        if request.method == "PUT":
            self.objects[request.path] = request.headers["body"].encode("latin-1")
            return Answer()
        content = self.objects.get(request.path)
        if content is None:
            return Answer.error(404, "NoSuchKey")
        if request.range is None:
            return Answer(body=content)
        begin, end = request.range
        if begin >= len(content):
            return Answer.error(416, "InvalidRange")
        end = min(end, len(content))
        stated = {"Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
        return Answer(206, content[begin:end], stated)

    def mirror(self, server: S3Server) -> None:
        """Take over all objects of a real server."""
        for path in server.root.rglob("*"):
            if path.is_file():
                self.objects[f"/{path.relative_to(server.root)}"] = path.read_bytes()


@contextlib.contextmanager
def stub() -> Iterator[Stub]:
    """A stub on a free port."""
    held = Stub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            length = int(headers.get("content-length", 0))
            headers["body"] = self.rfile.read(length).decode("latin-1") if length else ""
            query = parse_qs(parts.query, keep_blank_values=True)
            signed = headers.get("authorization", "") + " ".join(query.get("X-Amz-Credential", ()))
            found = re.search(r"(?:Credential=)?([^=/\s,]+)/\d{8}/", signed)
            request = Request(self.command, unquote(parts.path), query, headers, found[1] if found else "")
            self._send(held.answer(request))

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            with contextlib.suppress(OSError):
                self.wfile.write(answer.body if answer.cut is None else answer.body[: answer.cut])
            if answer.cut is not None:
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _do

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that go away are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    held.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _drain(stream: Any) -> None:
    with contextlib.suppress(ValueError, OSError):  # closed under it, when the server is gone
        while stream.readline():
            pass
