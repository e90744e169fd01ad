"""A request's body: read up to a limit, unpacked up to the same limit, or read and dropped."""

from __future__ import annotations

import asyncio
import contextlib
import io
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from starlette.types import Receive

from faas.errors import CallerGone, MalformedBody, PayloadTooLarge, UnsupportedMedia

_SMALL_BYTES: Final = 64 * 1024  # read to its end before a refusal, so that the connection can stay open
_DROP_BYTES: Final = 64 * 1024 * 1024
_DROP_S: Final = 30.0
_INLINE_BYTES: Final = 1024 * 1024
_MAX_MEMBERS: Final = 1000
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


class Body:
    """The body of one request, to be read once. `headers` are lower-case; `limit` is in bytes, unpacked."""

    __slots__ = ("_begun", "_encoding", "_headers", "_limit", "_receive", "complete")

    def __init__(self, receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> None:
        self._receive = receive
        self._headers = headers
        self._limit = limit
        self._encoding = headers.get(b"content-encoding")
        self._begun = False
        self.complete = False

    async def read(self) -> bytes:
        """Return the whole body, unpacked.

        Raises:
            PayloadTooLarge: it is, or says it is, over the limit.
            UnsupportedMedia: packed in a way that is not known here.
            MalformedBody: not packed as it says.
            CallerGone: the caller left while sending it.
        """
        if self._encoding is not None:
            held = io.BytesIO()
            async for chunk in self.chunks():
                held.write(chunk)
            return held.getvalue()
        self._check_stated()
        first = await self._next()
        if self.complete:
            if len(first) > self._limit:
                raise self._too_large()
            return first
        held = io.BytesIO()  # grows in place, where joining pieces would have all of them freed at once
        held.write(first)
        while not self.complete:
            held.write(await self._next())
            if held.tell() > self._limit:
                raise self._too_large()
        return held.getvalue()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, unpacked, as it comes. Raises what `read` raises."""
        self._check_stated()
        unpack = _unpacker(self._encoding)
        room = self._limit
        while not self.complete:
            chunk = await self._next()
            if unpack is not None:
                chunk = await unpack.feed(chunk, room + 1)
            room -= len(chunk)
            if room < 0:
                raise self._too_large()
            yield chunk
        if unpack is not None:
            unpack.finish()

    async def drop(self) -> None:
        """Read and drop what still comes, within bounds of size and time; `complete` says whether that was all."""
        room = _DROP_BYTES
        with contextlib.suppress(TimeoutError, CallerGone):
            async with asyncio.timeout(_DROP_S):
                while not self.complete and room > 0:
                    room -= len(await self._next())

    @property
    def is_small(self) -> bool:
        """Whether what is still to come is little, and comes without being asked for."""
        if self.waits_to_be_asked:
            return False
        stated = self._headers.get(b"content-length")
        if stated is None:
            return b"transfer-encoding" not in self._headers
        return int(stated) <= _SMALL_BYTES

    @property
    def waits_to_be_asked(self) -> bool:
        """Whether the caller holds the body back until it is told to send it, and has not been told."""
        return not self._begun and b"expect" in self._headers

    def _check_stated(self) -> None:
        stated = self._headers.get(b"content-length")
        if stated is not None and int(stated) > self._limit:
            raise self._too_large()

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"the body is over {self._limit} bytes: send less, or raise Calls(max_payload=...) of the function"
        )

    async def _next(self) -> bytes:
        self._begun = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise CallerGone("the caller left while sending the body")
        if not message.get("more_body", False):
            self.complete = True
        chunk: bytes = message.get("body", b"")
        return chunk


class _Unpacker:
    """Unpacks gzip and deflate, never beyond the room that is given."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._made = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False
        self._pending = b""
        self._num_members = 1

    async def feed(self, data: bytes, room: int) -> bytes:
        """Return what `data` unpacks to, `room` bytes at most. What is long is unpacked on a thread."""
        if data and not self._begun:
            self._begun = True
            if self._encoding == "deflate" and not _has_zlib_header(data):
                self._made = zlib.decompressobj(-zlib.MAX_WBITS)
        self._pending += data
        out = self._unpack(min(room, _INLINE_BYTES))
        if len(out) == _INLINE_BYTES < room:
            out += await asyncio.to_thread(self._unpack, room - _INLINE_BYTES)
        return out

    def finish(self) -> None:
        """Check that the end was reached, and nothing stands behind it."""
        if not self._made.eof or self._pending:
            raise self._broken()

    def _unpack(self, room: int) -> bytes:
        out = bytearray()
        while len(out) < room:
            if self._made.eof:
                if not self._pending:
                    break
                self._next_member()
            try:
                piece = self._made.decompress(self._pending, room - len(out))
            except zlib.error:
                raise self._broken() from None
            self._pending = self._made.unused_data if self._made.eof else self._made.unconsumed_tail
            out += piece
            if not piece and not self._made.eof:
                break  # it wants more input
        return bytes(out)

    def _next_member(self) -> None:
        """Begin the next of the members that gzip allows one after the other."""
        self._num_members += 1
        if self._num_members > _MAX_MEMBERS:
            raise MalformedBody(f"the body has more than {_MAX_MEMBERS} {self._encoding} members; send it as one")
        self._made = zlib.decompressobj(_GZIP_OR_ZLIB)

    def _broken(self) -> MalformedBody:
        return MalformedBody(f"the body is not the whole and valid {self._encoding} that Content-Encoding says it is")


def _has_zlib_header(data: bytes) -> bool:
    return data[0] & 0x0F == 8 and (len(data) < 2 or int.from_bytes(data[:2], "big") % 31 == 0)


def _unpacker(encoding: bytes | None) -> _Unpacker | None:
    name = (encoding or b"identity").decode("latin-1").strip().lower()
    if name in ("identity", ""):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise UnsupportedMedia(f"Content-Encoding {name!r} is not known here: send gzip, deflate or identity")
    return _Unpacker(name)
