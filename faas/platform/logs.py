"""What functions print: one JSON line a line, in a file a function that is rotated by size."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import msgspec

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16 * 2**20
MAX_LINE_BYTES = 64 * 2**10
_MUCH_BYTES = 16 * 2**10
_REST = 4


class Line(msgspec.Struct, frozen=True):
    """One line that an instance printed. `time` is ISO 8601, UTC."""

    time: str
    instance: str
    text: str


class LogFile:
    """The log of one function. At `MAX_FILE_BYTES` it becomes `NAME.1.jsonl`, replacing the one before."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self._followers: set[asyncio.Queue[Line]] = set()
        self._is_failing = False

    def write(self, instance: str, *texts: str) -> None:
        """Add lines. A disk that is full loses them, which is told once, and nothing else."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        lines = [Line(now, instance, text) for text in texts]
        for follower in self._followers:
            for line in lines:
                if not follower.full():
                    follower.put_nowait(line)
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
            self.path.replace(self.path.with_suffix(".1.jsonl"))

    def last(self, num_lines: int) -> list[Line]:
        """Return the last lines, oldest first."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - num_lines * 512 - MAX_LINE_BYTES))
                lines = file.read().splitlines()[-num_lines:] if num_lines else []
        except OSError:
            return []
        return [line for line in map(_line, lines) if line is not None]

    @property
    def num_followers(self) -> int:
        """How many read along."""
        return len(self._followers)

    async def follow(self) -> AsyncIterator[Line]:
        """Yield each line as it is written. A reader that is 1,000 lines behind misses some."""
        queue: asyncio.Queue[Line] = asyncio.Queue(1000)
        self._followers.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._followers.discard(queue)


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
