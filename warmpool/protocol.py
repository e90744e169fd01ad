"""The messages between client, zygote and workers, and the one place where descriptors travel.

A SOCK_SEQPACKET Unix socket keeps messages whole, and the descriptors of a message with it. A message is small: a
payload over `INLINE_PAYLOAD_BYTES` lies in a memfd whose descriptor travels as the last one, so that a zygote passes
megabytes on without reading them (its memory is every worker's memory).
"""

import array
import errno
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from warmpool.errors import ProtocolError, RequestInvalid

MAX_MESSAGE_BYTES = 128 * 1024
MAX_DESCRIPTORS = 253  # the kernel's SCM_MAX_FD
INLINE_PAYLOAD_BYTES = 32 * 1024

ADOPTED = b"adopted"
"""What a parked worker answers to `Adopt`, before it does anything of the request."""
INHERIT_ENTRY = "warmpool.zygote:inherit"
"""The entry of a worker that becomes a hot zygote."""
SETTLED = b"settled"
"""What a parked worker sends once it has done what `Fork.park` asked for."""

_DESCRIPTOR_BYTES = array.array("i").itemsize
_M = TypeVar("_M")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is asked to run: `entry(payload, fds)`.

    The entry returns None or an exit status; an exception is printed to stderr and is exit status 1.
    """

    entry: str
    """`package.module:function`, imported in the worker."""
    payload: bytes = b""
    fds: dict[str, int] = {}
    """Descriptors by name: the caller's numbers here, the worker's own in the entry. `stdout` and `stderr` replace 1
    and 2 and are not handed to the entry. The caller may close its own once it has the worker."""
    env: dict[str, str | None] = {}
    """Environment variables to set, or to remove (None)."""
    cwd: str | None = None
    sys_path: tuple[str, ...] = ()
    """Folders put at the front of `sys.path`, in this order."""
    num_workers: int = 1
    """How many workers share this machine's processors: the divisor of the thread counts (`cpu`)."""

    def __post_init__(self) -> None:
        module, colon, path = self.entry.partition(":")
        if not (module and colon and path):
            raise RequestInvalid(f"the entry {self.entry!r} names no function; write it as 'package.module:function'")
        if self.num_workers < 1:
            raise RequestInvalid(f"num_workers is {self.num_workers}; it counts this worker too, so it is at least 1")


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Client to zygote, once: what to import, and the variables that it runs without, for its workers (None: not set).

    Descriptor: a memfd with the modules' names, one a line; a recorded set of thousands would not fit into a message.
    """

    sys_path: tuple[str, ...]
    remembered: dict[str, str | None]


class Inherit(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of the request that makes a worker a hot zygote.

    `modules` are those that its zygote lacks, `entry(payload)` is run after them, `remembered` is as in `Prepare`.
    """

    modules: tuple[str, ...]
    entry: str
    payload: bytes
    remembered: dict[str, str | None]


class Park(msgspec.Struct, frozen=True):
    """What a worker does once it is parked: `entry(payload)`."""

    entry: str
    payload: bytes


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Client to zygote: fork one worker. Without a request it is parked, does what `park` says, and awaits an `Adopt`.

    Descriptors: the lifeline, then those of the request, or the parked worker's socket.
    """

    id: int
    request: Request | None
    payload_in_memfd: bool = False
    park: Park | None = None

    @property
    def num_fds(self) -> int:
        """How many descriptors belong to it."""
        return 2 if self.request is None else 1 + len(self.request.fds) + self.payload_in_memfd


class Adopt(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Client to a parked or an exec'd worker: what to be. Descriptors: those of the request."""

    request: Request
    payload_in_memfd: bool = False


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Zygote to client, once: imports are done. `failed` has a reason for each module that could not be imported."""

    failed: dict[str, str]
    hazard: str | None
    import_s: float


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker to client, over its zygote's socket and before it runs anything: it lives, since the monotonic instant
    `started_at`. Descriptor: its pidfd."""

    id: int
    pid: int
    started_at: float


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Zygote to client: forking would not be safe, or failed."""

    id: int
    why: str


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Zygote to client: a worker ended and was reaped. A negative status is the signal that ended it."""

    id: int
    status: int


ToZygote = Prepare | Fork
ToClient = Ready | Forked | Refused | Exited

_encode = msgspec.msgpack.Encoder().encode
INHERIT = msgspec.msgpack.Decoder(Inherit)
ZYGOTE_INBOX = msgspec.msgpack.Decoder(ToZygote)
CLIENT_INBOX = msgspec.msgpack.Decoder(ToClient)
WORKER_INBOX = msgspec.msgpack.Decoder(Adopt)


def encode_inherit(message: Inherit) -> bytes:
    """Return the payload that `INHERIT` reads."""
    return _encode(message)


def socketpair() -> tuple[socket.socket, socket.socket]:
    """Return two connected message sockets, both closed on exec."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, message: ToZygote | Adopt | ToClient, fds: Sequence[int] = ()) -> None:
    """Send one message with its descriptors.

    Raises ProtocolError when it is too big or a descriptor is not open, BlockingIOError when a non-blocking socket is
    full, BrokenPipeError when the peer is gone.
    """
    body = _encode(message)
    if len(body) > MAX_MESSAGE_BYTES:
        raise ProtocolError(
            f"a {type(message).__name__} message of {len(body)} bytes is over the limit of {MAX_MESSAGE_BYTES}: "
            "put what is big into the payload, not into the environment or the paths"
        )
    if len(fds) > MAX_DESCRIPTORS:
        raise ProtocolError(f"{len(fds)} descriptors in one message, the kernel passes at most {MAX_DESCRIPTORS}")
    if sock.fileno() < 0:
        raise BrokenPipeError("the socket has been closed")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        sock.sendmsg([body], rights, socket.MSG_NOSIGNAL)
    except ConnectionResetError as error:  # the peer went with messages of ours unread
        raise BrokenPipeError("the peer is gone") from error
    except OSError as error:
        if error.errno == errno.EBADF:
            raise ProtocolError(f"one of the descriptors {list(fds)} to pass on is not open") from error
        raise


def receive(sock: socket.socket, inbox: msgspec.msgpack.Decoder[_M]) -> tuple[_M, list[int]]:
    """Receive one message and its descriptors, which are closed on exec and belong to the caller.

    Descriptors that do not fit under this process's limit are lost: the receiver knows how many there should be. Raises
    EOFError when the peer is gone, ProtocolError when `inbox` does not take the message; then none is left open.
    """
    try:
        body, ancillary, flags, _ = _receive(sock)
    except ConnectionResetError:  # the peer closed with messages of ours unread; told once, ahead of what it has sent
        body, ancillary, flags, _ = _receive(sock)
    fds = _descriptors(ancillary)
    try:
        if not body:
            raise EOFError("the peer closed its socket")
        if flags & socket.MSG_TRUNC:
            raise ProtocolError(f"a message is over the limit of {MAX_MESSAGE_BYTES} bytes")
        return inbox.decode(body), fds
    except msgspec.MsgspecError as error:
        close_all(fds)
        raise ProtocolError(f"a message cannot be read: {error}") from error
    except (EOFError, ProtocolError):
        close_all(fds)
        raise


def _receive(sock: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]], int, Any]:
    ancillary_bytes = socket.CMSG_SPACE(MAX_DESCRIPTORS * _DESCRIPTOR_BYTES)
    return sock.recvmsg(MAX_MESSAGE_BYTES, ancillary_bytes, socket.MSG_CMSG_CLOEXEC)


class Packed(msgspec.Struct, frozen=True):
    """A request as it travels: what is in the message, and the descriptors that go with it."""

    request: Request
    fds: list[int]
    memfd: int | None
    """Holds the payload when that is big; it is the last of the descriptors."""

    @property
    def in_memfd(self) -> bool:
        """Whether the payload travels beside the message."""
        return self.memfd is not None

    def close(self) -> None:
        """Close what was opened for the way, once the message is sent."""
        if self.memfd is not None:
            os.close(self.memfd)


def pack(request: Request) -> Packed:
    """Make a request ready to travel; `close` what comes back. Raises OSError when memory or descriptors run out."""
    fds = list(request.fds.values())
    if len(request.payload) <= INLINE_PAYLOAD_BYTES:
        return Packed(request, fds, None)
    memfd = to_memfd(request.payload)
    return Packed(msgspec.structs.replace(request, payload=b""), [*fds, memfd], memfd)


def unpack(request: Request, fds: Sequence[int], payload_in_memfd: bool) -> Request:
    """Put a request together again from the message and its descriptors, as the worker sees it."""
    check_count(fds, len(request.fds) + payload_in_memfd)
    payload = request.payload
    if payload_in_memfd:
        payload = from_memfd(fds[-1])
    return msgspec.structs.replace(request, payload=payload, fds=dict(zip(request.fds, fds, strict=False)))


def check_count(fds: Sequence[int], expected: int) -> None:
    """Raise ProtocolError when not all descriptors of a message have come."""
    if len(fds) != expected:
        raise ProtocolError(
            f"{len(fds)} descriptors came with a message of {expected}: raise the limit of open files (ulimit -n)"
        )


def to_memfd(data: bytes) -> int:
    """Return a new memfd that holds `data`."""
    memfd = os.memfd_create("warmpool", os.MFD_CLOEXEC)
    view = memoryview(data)
    offset = 0
    try:
        while offset < len(view):
            offset += os.pwrite(memfd, view[offset:], offset)
    except OSError:
        os.close(memfd)
        raise
    return memfd


def from_memfd(memfd: int) -> bytes:
    """Return what a memfd holds, and close it."""
    with open(memfd, "rb", buffering=0) as file:
        return file.readall()


def close_all(fds: Iterable[int]) -> None:
    """Close each descriptor."""
    for fd in fds:
        os.close(fd)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
    return fds.tolist()
