"""What functions print: one JSON line a line, in a file a function that is rotated by size."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import msgspec

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16 * 2**20
MAX_LINE_BYTES = 64 * 2**10
MAX_BEHIND = 1000
"""Lines that a reader may be behind."""
_MUCH_BYTES = 16 * 2**10
_REST = 4
_BLOCK_BYTES = 64 * 2**10


class Line(msgspec.Struct, frozen=True):
    """One line that an instance printed. `time` is ISO 8601, UTC."""

    time: str
    instance: str
    text: str


class LogFile:
    """The log of one function. At `MAX_FILE_BYTES` it becomes `NAME.1.jsonl`, replacing the one before."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self._before = folder / f"{name}.1.jsonl"
        self._followers: set[_Follower] = set()
        self._is_failing = False

    def write(self, instance: str, *texts: str) -> None:
        """Add lines. A disk that is full loses them, which is told once, and nothing else."""
        now = _now()
        lines = [Line(now, instance, text) for text in texts]
        for follower in self._followers:
            for line in lines:
                follower.tell(line)
        try:
            self._append(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        except OSError as error:
            if not self._is_failing:
                logger.warning("%s cannot be written, and its lines are lost: %s", self.path, error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False

    def _append(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"\n" + data if self._is_failing else data)  # a line may have been cut in the middle
            size = file.tell()
        if size >= MAX_FILE_BYTES:
            self.path.replace(self._before)

    def last(self, num_lines: int) -> list[Line]:
        """Return the last lines, oldest first."""
        lines = _tail(self.path, num_lines)
        lines = _tail(self._before, num_lines - len(lines)) + lines
        return [line for line in map(_line, lines) if line is not None]

    @property
    def num_followers(self) -> int:
        """How many read along."""
        return len(self._followers)

    async def follow(self, num_lines: int = 0) -> AsyncIterator[Line]:
        """Yield the last lines and then each one as it is written, until the log is closed.

        A reader that is `MAX_BEHIND` lines behind misses what is written until it has caught up, and is told how much.
        """
        follower = _Follower()
        self._followers.add(follower)
        try:
            for past in self.last(num_lines):
                yield past
            while (line := await follower.next()) is not None:
                yield line
        finally:
            self._followers.discard(follower)

    def close(self) -> None:
        """End all who follow: nothing more is written."""
        for follower in self._followers:
            follower.end()


class _Follower:
    """What one reader of a log has not read yet."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._num_missed = 0
        self._is_over = False
        self._changed = asyncio.Event()

    def tell(self, line: Line) -> None:
        """Have a line read, unless the reader is too far behind."""
        if self._num_missed or len(self._lines) >= MAX_BEHIND:
            self._num_missed += 1
        else:
            self._lines.append(line)
        self._changed.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._changed.set()

    async def next(self) -> Line | None:
        """Return the next line, or in its place how many were missed; None once nothing more comes."""
        while True:
            if self._lines:
                return self._lines.popleft()
            if self._num_missed:
                missed, self._num_missed = self._num_missed, 0
                return Line(_now(), "-", f"faas: {missed} lines are left out here: they came faster than they are read")
            if self._is_over:
                return None
            self._changed.clear()
            await self._changed.wait()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _tail(path: Path, num_lines: int) -> list[bytes]:
    """Return the last lines of a file; none where it cannot be read."""
    blocks: list[bytes] = []
    try:
        with path.open("rb") as file:
            left, num_ends = file.seek(0, os.SEEK_END), 0
            while left and num_ends <= num_lines:  # what comes before the first end is a line, whole or not
                num_bytes = min(left, _BLOCK_BYTES)
                left = file.seek(left - num_bytes)
                blocks.append(file.read(num_bytes))
                num_ends += blocks[-1].count(b"\n")
    except OSError:
        return []
    return b"".join(reversed(blocks)).split(b"\n")[:-1][-num_lines:] if num_lines > 0 else []


def _line(encoded: bytes) -> Line | None:
    try:
        return msgspec.json.decode(encoded, type=Line)
    except msgspec.MsgspecError:
        return None


class _OutputPipe(asyncio.Protocol):
    """The reading end of an instance's standard output and error, cut into lines.

    Of a line that is written again and again from its beginning, as progress bars are, the last is what is written. An
    instance that prints much has to wait: the platform spends a fifth of its time with it at most.
    """

    def __init__(self, log: LogFile, instance: str) -> None:
        self._log = log
        self._instance = instance
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self._pipe: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pipe is open."""
        self._pipe = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Write each whole line; a longer one than `MAX_LINE_BYTES` is cut."""
        begun_s = self._loop.time()
        *whole, rest = (self._rest + data).split(b"\n")
        *long, self._rest = _cut(_last_of(rest))
        lines = [piece for line in whole for piece in _cut(_last_of(line).rstrip(b"\r"))] + long
        if lines:
            self._log.write(self._instance, *(line.decode("utf-8", "replace") for line in lines))
        if len(data) >= _MUCH_BYTES and self._pipe is not None:
            self._pipe.pause_reading()
            self._loop.call_later(_REST * (self._loop.time() - begun_s), self._read_on)

    def connection_lost(self, exc: Exception | None) -> None:
        """Write what came after the last line's end."""
        self._pipe = None
        if self._rest:
            self._log.write(self._instance, _last_of(self._rest).decode("utf-8", "replace"))

    def _read_on(self) -> None:
        if self._pipe is not None and not self._pipe.is_closing():
            self._pipe.resume_reading()


def _last_of(line: bytes) -> bytes:
    """Return what follows the last return to the beginning of a line, unless that is the first half of its end."""
    return line[line.rstrip(b"\r").rfind(b"\r") + 1 :]


def _cut(line: bytes) -> list[bytes]:
    """Return `line` in pieces of at most `MAX_LINE_BYTES`; an empty line is one empty piece."""
    return [line[at : at + MAX_LINE_BYTES] for at in range(0, len(line), MAX_LINE_BYTES)] or [b""]


async def capture(log: LogFile, instance: str) -> tuple[asyncio.BaseTransport, int]:
    """Return the transport of a new pipe's reading end, and the writing end's descriptor, which the caller closes."""
    reader, writer = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: _OutputPipe(log, instance), os.fdopen(reader, "rb", buffering=0)
    )
    return transport, writer
