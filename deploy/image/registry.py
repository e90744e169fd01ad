"""Repositories of a registry, read: manifests, indexes and blobs, each compared with its digest while it is read.

The API is that of the OCI distribution specification 1.1. What it calls `digest` is SHA-256 here and nothing else.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.image import manifest as manifests
from deploy.image.connection import Connection
from deploy.image.errors import NoAnswer, WrongContent
from deploy.image.manifest import Descriptor, Image, Manifest, Platform
from deploy.image.reference import Reference, digest_of, is_digest
from deploy.image.transport import NUM_ATTEMPTS, Call, Transport

_PIECE_BYTES = 1 << 20
_DEEPEST_INDEX = 3

OnBytes = Callable[[int], None]
"""Takes how many bytes of a blob are done."""


class Registries:
    """The registries of one piece of work, each with its connections. A context manager."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transports: dict[str, Transport] = {}

    def repository(self, reference: Reference, *, push: bool = False, pull_too: str | None = None) -> "Repository":
        """The repository of a reference; `pull_too` is another of the registry, to mount from."""
        transport = self._transports.get(reference.registry)
        if transport is None:
            transport = self._transports[reference.registry] = Transport(reference.registry, self._connection)
        scopes = [f"repository:{reference.repository}:{'pull,push' if push else 'pull'}"]
        if pull_too is not None and pull_too != reference.repository:
            scopes.append(f"repository:{pull_too}:pull")
        return Repository(transport, reference.repository, tuple(scopes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for transport in self._transports.values():
            transport.close()


@dataclass(frozen=True)
class Repository:
    """One repository. Each method raises RegistryError."""

    transport: Transport
    name: str
    scopes: tuple[str, ...]

    @property
    def where(self) -> str:
        """Registry and repository, for messages."""
        return f"{self.transport.registry}/{self.name}"

    def url(self, path: str) -> str:
        """The address of something of this repository."""
        return self.transport.url(f"{self.name}/{path}")

    def digest_of(self, target: str, *, num_attempts: int = NUM_ATTEMPTS) -> str | None:
        """The digest of the manifest at a tag or digest, None where there is none or it is not told."""
        call = Call(
            method="HEAD",
            url=self.url(f"manifests/{target}"),
            what=f"whether there is {target}",
            scopes=self.scopes,
            headers={"Accept": manifests.ACCEPT},
            accepted=(404,),
            num_attempts=num_attempts,
        )
        response, _ = self.transport.ask(call)
        digest = response.headers.get("docker-content-digest")
        return digest if response.status_code == 200 and is_digest(digest) else None

    def manifest(self, target: str) -> tuple[bytes, str]:
        """What is at a tag or digest, a manifest or an index, with its media type.

        Raises:
            WrongContent: it is not what its digest says.
            BadImage: it is no JSON.
        """
        call = Call(
            method="GET",
            url=self.url(f"manifests/{target}"),
            what=f"the manifest {target}",
            scopes=self.scopes,
            headers={"Accept": manifests.ACCEPT},
        )
        response, content = self.transport.ask(call, manifests.MAX_BYTES)
        where = f"{self.where}:{target}" if not is_digest(target) else f"{self.where}@{target}"
        stated = target if is_digest(target) else response.headers.get("docker-content-digest")
        if is_digest(stated) and stated != digest_of(content):
            raise WrongContent(f"{where} has another content than its digest says", "pull it again, or push it anew")
        return content, manifests.media_type_of(content, response.headers.get("content-type", ""), where)

    def image(self, reference: Reference, platform: Platform | None) -> Image:
        """The image at a reference, from an index the one for `platform`; None stands for whichever it is for.

        Raises:
            WrongPlatform: there is none for it.
            BadImage: what is there is no image.
        """
        where, target = str(reference), reference.target
        for _ in range(_DEEPEST_INDEX):
            content, media_type = self.manifest(target)
            if not manifests.is_index(media_type):
                break
            target = manifests.pick(content, platform, where).digest
        manifest = Manifest.of(content, media_type, where)
        image = Image.of(manifest, self._config(manifest.config, where), where)
        if platform is not None:
            image.check_platform(platform, where)
        return image

    def holds(self, blob: Descriptor) -> bool:
        """Whether this repository has a blob: all of it, where the registry says how large it is."""
        call = Call(
            method="HEAD",
            url=self.url(f"blobs/{blob.digest}"),
            what=f"whether there is blob {blob.digest}",
            scopes=self.scopes,
            accepted=(404,),
        )
        response, _ = self.transport.ask(call)
        length = response.headers.get("content-length")
        return response.status_code != 404 and length in (None, str(blob.size_bytes))

    def read(self, blob: Descriptor) -> Iterator[bytes]:
        """A blob's bytes, once. A connection that breaks is taken up where it broke.

        Raises, with the last of the bytes:
            WrongContent: they are not those of its digest and size. What came before is not to be used.
        """
        hashed, done, num_failures = hashlib.sha256(), 0, 0
        while done < blob.size_bytes or done == 0:
            has_begun = False
            try:
                with self.transport.open(self._reading(blob, done)) as response:
                    has_begun = True
                    num_known = done if response.status_code == 200 else 0  # it sends all, whatever it was asked for
                    for piece in _after(num_known, response.iter_raw(_PIECE_BYTES)):
                        done += len(piece)
                        if done > blob.size_bytes:
                            raise self._wrong(blob, "is longer than its descriptor says")
                        hashed.update(piece)
                        if piece:
                            num_failures = 0
                            yield piece
                if done < blob.size_bytes:
                    raise self._wrong(blob, f"ends after {done} of {blob.size_bytes} bytes")
                break
            except NoAnswer:
                num_failures += 1
                if num_failures == NUM_ATTEMPTS or not has_begun:  # then it was tried often enough
                    raise
                self.transport.wait(num_failures)
        if f"sha256:{hashed.hexdigest()}" != blob.digest:
            raise self._wrong(blob, "has another content than its digest says")

    def save(self, blob: Descriptor, path: Path, on_bytes: OnBytes = lambda done: None) -> None:
        """Write a blob to a file, which is there only if it is whole. Raises as `read` does."""
        temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with temporary.open("wb") as file:
                for piece in self.read(blob):
                    file.write(piece)
                    on_bytes(file.tell())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def put_manifest(self, content: bytes, media_type: str, target: str) -> None:
        """Write a manifest at a tag or its digest; the blobs that it names have to be there."""
        call = Call(
            method="PUT",
            url=self.url(f"manifests/{target}"),
            what=f"writing the manifest {target}",
            scopes=self.scopes,
            headers={"Content-Type": media_type},
            content=content,
        )
        self.transport.ask(call)

    def _config(self, blob: Descriptor, where: str) -> bytes:
        if blob.size_bytes > manifests.MAX_BYTES:
            raise WrongContent(
                f"{where} has a configuration of {blob.size_bytes} bytes", "push it anew, or name another"
            )
        return b"".join(self.read(blob))

    def _reading(self, blob: Descriptor, begin: int) -> Call:
        return Call(
            method="GET",
            url=self.url(f"blobs/{blob.digest}"),
            what=f"blob {blob.digest}",
            scopes=self.scopes,
            headers={"Range": f"bytes={begin}-"} if begin else {},
        )

    def _wrong(self, blob: Descriptor, what: str) -> WrongContent:
        return WrongContent(f"{self.where}: blob {blob.digest} {what}", "push it anew, or ask who runs the registry")


def _after(num_bytes: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces without their first `num_bytes`; one that is left out wholly is empty."""
    for piece in pieces:
        skipped = min(num_bytes, len(piece))
        num_bytes -= skipped
        yield piece[skipped:]
