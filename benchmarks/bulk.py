"""A caller with a large body, as a process of its own: who measures others meanwhile must not be held up by it.

python -m benchmarks.bulk URL {json,numbers,raw} NUM_BYTES [NUM_TIMES]

It prints a line of JSON for each request: the status, the seconds until the answer, and the bytes that were taken.
"""

import json
import socket
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

_TYPES = {"json": "application/json", "numbers": "application/json", "raw": "application/octet-stream"}
_NUMBER = b"0.12345678,"
_PIECE_BYTES = 1 << 20


def send(url: str, form: str, num_bytes: int) -> dict[str, float]:
    """Post a body of `num_bytes`, or JSON: a string, or a list of numbers; until there is an answer."""
    place = urlsplit(url)
    head = (
        f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: {_TYPES[form]}\r\n"
        f"Content-Length: {num_bytes}\r\nConnection: close\r\n\r\n"
    )
    body = memoryview(_body(form, num_bytes))
    began_at, sent = time.monotonic(), 0
    with socket.create_connection((place.hostname or "", place.port or 80)) as line:
        line.sendall(head.encode())
        with suppress(ConnectionError):  # it may be answered, and closed, before it is read
            while sent < num_bytes and not _has_answer(line):
                sent += line.send(body[sent : sent + _PIECE_BYTES])
        status = int(line.recv(4096).split(b" ", 2)[1])
    return {"status": status, "seconds": time.monotonic() - began_at, "sent_bytes": sent}


def _body(form: str, num_bytes: int) -> bytes:
    if form == "numbers":
        return (b"[" + _NUMBER * (num_bytes // len(_NUMBER) - 1) + b"0]").ljust(num_bytes)
    quote = b'"' if form == "json" else b"x"
    return quote + b"x" * (num_bytes - 2) + quote


def _has_answer(line: socket.socket) -> bool:
    try:
        return bool(line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def main(arguments: list[str]) -> None:
    url, form, num_bytes, *num_times = arguments
    for _ in range(int(num_times[0]) if num_times else 1):
        print(json.dumps(send(url, form, int(num_bytes))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
