"""Blobs into a repository: mounted from another one, in one piece where they are small, else in parts.

OCI distribution specification 1.1, "Pushing blobs". After a connection that broke, the registry is asked how far it has
come, and the rest is sent; where it has forgotten the session, another one is begun.
"""

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from deploy.image.errors import BadSource, Faulty, NoAnswer, NotAccepted, NotInRegistry, RegistryError
from deploy.image.manifest import Descriptor
from deploy.image.registry import OnBytes, Repository
from deploy.image.transport import NUM_ATTEMPTS, Call, retry_after_s

PART_BYTES = 16 << 20

_MIN_PART_BYTES = 1 << 20
_PIECE_BYTES = 256 << 10
_RANGE = re.compile(r"(?:bytes=)?0-(\d+)")
_NO_PARTS = (400, 405, 411, 501)
_TOO_LARGE, _WRONG_RANGE = 413, 416
_UNAVAILABLE = (408, _WRONG_RANGE, 429, 500, 502, 503, 504)  # the session may be well: ask it


@dataclass(frozen=True)
class Blob:
    """Bytes to upload: in a file, or at hand."""

    descriptor: Descriptor
    source: Path | bytes

    @property
    def size_bytes(self) -> int:
        """How many there are."""
        return self.descriptor.size_bytes


@dataclass(frozen=True)
class _Span:
    """Some of a blob's bytes, to be read any number of times; `on_bytes` hears of them as they go."""

    blob: Blob
    begin: int
    end: int
    on_bytes: OnBytes

    def __iter__(self) -> Iterator[bytes]:
        if isinstance(self.blob.source, bytes):
            yield self.blob.source[self.begin : self.end]
        else:
            with self.blob.source.open("rb") as file:
                file.seek(self.begin)
                left = self.end - self.begin
                while left:
                    piece = file.read(min(left, _PIECE_BYTES))
                    if not piece:
                        raise BadSource(
                            f"{self.blob.source} became shorter while it was sent", "give the command again"
                        )
                    left -= len(piece)
                    yield piece
                    self.on_bytes(self.end - left)
        self.on_bytes(self.end)


class _SessionLost(Exception):
    """The registry knows nothing of the upload any more, or did not say how it ended."""

    def __init__(self, why: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(why)


def mount(repository: Repository, blob: Descriptor, source: str) -> bool:
    """Have the registry take a blob over from its repository `source`. Returns whether it did."""
    call = Call(
        method="POST",
        url=str(httpx.URL(repository.url("blobs/uploads/")).copy_merge_params({"mount": blob.digest, "from": source})),
        what=f"mounting blob {blob.digest} from {source}",
        scopes=repository.scopes,
        headers={"Content-Length": "0"},
        accepted=(401, 403, 404, 405),  # there are other ways
    )
    response, _ = repository.transport.ask(call)
    if response.status_code == 202 and (location := response.headers.get("location")):
        _cancel(repository, repository.transport.resolve(location, call.url))
    return response.status_code == 201


def upload(
    repository: Repository, blob: Blob, on_bytes: OnBytes = lambda done: None, part_bytes: int = PART_BYTES
) -> None:
    """Send a blob; `on_bytes` hears how many of its bytes are done.

    Where the registry takes no parts of so many bytes, smaller ones are sent, and at last the whole in one piece.

    Raises:
        RegistryError: the registry does not take it.
        BadSource: its file is not what it was.
    """
    lost, attempt = "", 0
    while attempt < NUM_ATTEMPTS:
        session = _Session(repository, blob, on_bytes)
        least_bytes = session.begin()
        try:
            if blob.size_bytes > part_bytes:
                session.send_parts(max(part_bytes, least_bytes))
            session.finish()
            return
        except _PartsRefused as error:
            smaller = part_bytes // 4 if error.is_too_large else 0
            part_bytes = smaller if smaller >= max(_MIN_PART_BYTES, least_bytes) else blob.size_bytes
        except _SessionLost as error:
            lost = str(error)
            repository.transport.wait(attempt, error.retry_after_s)
            attempt += 1
    raise Faulty(repository.where, f"it loses the upload of {blob.descriptor.digest} ({lost})", "try again later")


class _PartsRefused(Exception):
    """The registry takes no parts, or none that large, or what came of them is not the blob."""

    def __init__(self, *, is_too_large: bool) -> None:
        self.is_too_large = is_too_large
        super().__init__(is_too_large)


class _Session:
    """One session: `begin`, perhaps `send_parts`, `finish`.

    Each but the first may raise _SessionLost, and _PartsRefused where there are parts.
    """

    def __init__(self, repository: Repository, blob: Blob, on_bytes: OnBytes) -> None:
        self._repository, self._blob, self._on_bytes = repository, blob, on_bytes
        self._transport = repository.transport
        self._location = ""
        self._done = 0
        self._is_in_parts = False

    def begin(self) -> int:
        """Begin the session. Returns the least bytes that the registry takes as a part."""
        call = self._call("POST", self._repository.url("blobs/uploads/"), content=b"", num_attempts=NUM_ATTEMPTS)
        response, _ = self._transport.ask(call)
        if not response.headers.get("location"):
            raise Faulty(self._repository.where, "it begins an upload without saying where", "ask who runs it")
        self._move(response, call)
        least = response.headers.get("oci-chunk-min-length", "0")
        return int(least[:12]) if least.isdecimal() else 0

    def send_parts(self, part_bytes: int) -> None:
        """Send all of the blob in parts of so many bytes."""
        num_failures, self._is_in_parts = 0, True
        while self._done < self._blob.size_bytes:
            before = self._done
            try:
                self._send_part(min(before + part_bytes, self._blob.size_bytes))
            except NotAccepted as error:
                if error.status in (*_NO_PARTS, _TOO_LARGE):
                    raise _PartsRefused(is_too_large=error.status == _TOO_LARGE) from None
                raise
            except (NoAnswer, Faulty) as error:
                if error.status == _WRONG_RANGE and before == 0:  # its place cannot be wrong: so it is its size
                    raise _PartsRefused(is_too_large=True) from None
                if num_failures + 1 == NUM_ATTEMPTS:
                    raise
                self._transport.wait(num_failures, error.retry_after_s)
                self._look(error)
            num_failures = 0 if self._done > before else num_failures + 1
            if num_failures == NUM_ATTEMPTS:
                raise _SessionLost(f"it takes nothing beyond byte {before}")

    def finish(self) -> None:
        """Send what is left, and have the registry compare the whole with its digest."""
        digest, begin, size = self._blob.descriptor.digest, self._done, self._blob.size_bytes
        call = self._call(
            "PUT",
            str(httpx.URL(self._location).copy_merge_params({"digest": digest})),
            headers={"Content-Type": "application/octet-stream", "Content-Length": str(size - begin)},
            content=_Span(self._blob, begin, size, self._on_bytes) if begin < size else b"",
            num_attempts=1 if begin < size else NUM_ATTEMPTS,
        )
        try:
            self._transport.ask(call)
        except NotAccepted:
            self._check_source()
            if self._is_in_parts:
                raise _PartsRefused(is_too_large=False) from None
            raise
        except (NoAnswer, NotInRegistry, Faulty) as error:
            if not self._repository.holds(self._blob.descriptor):  # the answer may have been lost, and not the blob
                raise _SessionLost(str(error), error.retry_after_s) from None

    def _send_part(self, end: int) -> None:
        begin = self._done
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(end - begin),
            "Content-Range": f"{begin}-{end - 1}",
        }
        span = _Span(self._blob, begin, end, self._on_bytes)
        call = self._call("PATCH", self._location, headers=headers, content=span, accepted=(404, *_UNAVAILABLE))
        response, _ = self._transport.ask(call)
        if response.status_code == 404:
            raise _SessionLost("it knows the session no more")
        if response.status_code in _UNAVAILABLE:
            raise Faulty(
                self._repository.where,
                f"{call.what}: answered {response.status_code}",
                "try again later",
                status=response.status_code,
                retry_after_s=retry_after_s(response.headers.get("retry-after"), time.time()),
            )
        self._move(response, call)
        said = _end_of(response, end)
        # Some registries say of later parts what they said of the first, or count within a part; the digest of the
        # whole tells in the end.
        self._done = end if begin and said <= begin else said

    def _look(self, error: RegistryError) -> None:
        """Ask how far the session has come."""
        call = self._call("GET", self._location, accepted=(400, 404, 405, 416), num_attempts=NUM_ATTEMPTS)
        response, _ = self._transport.ask(call)
        if response.status_code >= 400:
            raise _SessionLost(str(error))
        self._move(response, call)
        self._done = min(_end_of(response, self._done), self._blob.size_bytes)

    def _check_source(self) -> None:
        """Find out whether it is the file that is wrong, where the registry says that the content is."""
        source = self._blob.source
        if isinstance(source, Path):
            with source.open("rb") as file:
                if f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" != self._blob.descriptor.digest:
                    raise BadSource(f"{source} is not what it was when it was made", "remove it, and try again")

    def _move(self, response: httpx.Response, call: Call) -> None:
        location = response.headers.get("location")
        if location:
            self._location = self._transport.resolve(location, call.url)

    def _call(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        content: bytes | _Span | None = None,
        accepted: tuple[int, ...] = (),
        num_attempts: int = 1,
    ) -> Call:
        return Call(
            method=method,
            url=url,
            what=f"uploading blob {self._blob.descriptor.digest}",
            scopes=self._repository.scopes,
            headers=headers or {},
            content=content,
            accepted=accepted,
            num_attempts=num_attempts,
        )


def _end_of(response: httpx.Response, usual: int) -> int:
    """How many bytes a session has by the `Range` of an answer. `0-0` is how registries write none."""
    found = _RANGE.fullmatch(response.headers.get("range", ""))
    if found is None:
        return usual
    last = int(found[1][:18])
    return last + 1 if last else 0


def _cancel(repository: Repository, location: str) -> None:
    """End a session that is not wanted. It would be forgotten anyway: how that goes does not matter."""
    call = Call(method="DELETE", url=location, what="ending an upload", scopes=repository.scopes, num_attempts=1)
    try:
        repository.transport.ask(call)
    except RegistryError:
        return
