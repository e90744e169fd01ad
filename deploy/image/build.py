"""Images without a daemon: layers put on a base in a registry, and only what the registry lacks is sent.

    pushed = append("python:3.11-slim", "registry/embed:v2", [packages, bundle], changes=Changes(user="65532"))
    pushed.image        registry/embed@sha256:...

All in order: the base's manifest and configuration are read; the new ones are composed; each blob that is not in the
repository is mounted from the base's, or copied, or sent; then the manifest is written, and it is looked whether all of
it is there. Where nothing has changed, nothing is written.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from deploy.image import upload
from deploy.image.compose import Changes, Composed, compose, scratch
from deploy.image.connection import Connection
from deploy.image.errors import BadReference, Faulty, NotAccepted, RegistryError
from deploy.image.layer import Layer
from deploy.image.manifest import Descriptor, Image, Platform
from deploy.image.reference import Reference
from deploy.image.registry import Registries, Repository

SCRATCH = "scratch"
"""The base that is nothing."""

_BLOB_LOST = ("MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN")


@dataclass(frozen=True)
class Transfer:
    """One blob under way. `present` and `mounted` ones are not sent; a `copied` one is read where the base is."""

    digest: str
    way: Literal["present", "mounted", "copied", "sent"]
    done_bytes: int
    size_bytes: int


Progress = Callable[[Transfer], None]


@dataclass(frozen=True)
class Pushed:
    """What was pushed: `image` is `registry/repository@digest`. `transfers` has each blob of the image, once.

    `is_new` is false where the tag had this very image.
    """

    image: str
    is_new: bool
    transfers: tuple[Transfer, ...]

    @property
    def sent_bytes(self) -> int:
        """The bytes of blobs that went to the registry."""
        return sum(one.size_bytes for one in self.transfers if one.way in ("sent", "copied"))

    @property
    def num_sent(self) -> int:
        """The blobs that went to the registry."""
        return sum(one.way in ("sent", "copied") for one in self.transfers)


def append(
    base: str,
    to: str,
    layers: Sequence[Layer] = (),
    *,
    changes: Changes = Changes(),  # noqa: B008 (frozen, and empty)
    platform: Platform | None = None,
    or_beside: bool = False,
    connection: Connection | None = None,
    progress: Progress = lambda transfer: None,
) -> Pushed:
    """Push `base` with `layers` on top as `to`; with neither layers nor changes it is a copy, digest and all.

    `base` may be `scratch`. Unless `platform` is told it is whichever the base is for, and linux/amd64 of an index of
    several. With `or_beside`, where the registry moves no tag that is there, the image is put beside it, under a tag
    that has its digest in it.

    Raises:
        BadReference: `base` or `to` names no image, or `to` is a digest.
        RegistryError: a registry does not do what it is asked for.
        BadImage: the base is none that can be built on.
        BadSource: the file of a layer is not what it was.
        CredentialsError: credentials cannot be read.
    """
    target = Reference.parse(to)
    if target.digest is not None:
        raise BadReference(f"{to!r} is one state of an image, and cannot be written to", "give a tag in its place")
    with Registries(connection or Connection()) as registries:
        if base == SCRATCH:
            composed = compose(scratch(platform or Platform()), layers, changes)
            return _Push(None, registries.repository(target, push=True), progress, or_beside).run(composed, target)
        origin = Reference.parse(base)
        source = registries.repository(origin)
        composed = compose(source.image(origin, platform), layers, changes)
        near = origin.repository if origin.registry == target.registry else None
        pushing = registries.repository(target, push=True, pull_too=near)
        return _Push(source, pushing, progress, or_beside).run(composed, target)


def inspect(image: str, *, platform: Platform | None = None, connection: Connection | None = None) -> tuple[str, Image]:
    """The image at a reference, with `registry/repository@digest` of it. Raises as `append` does."""
    reference = Reference.parse(image)
    with Registries(connection or Connection()) as registries:
        found = registries.repository(reference).image(reference, platform)
    return str(reference.at(found.manifest.digest)), found


def digest_of(image: str, *, connection: Connection | None = None) -> str | None:
    """What a reference names at present, be it an index, as `registry/repository@digest`; None where that is not told.

    The registry is asked once. Raises BadReference, CredentialsError and RegistryError.
    """
    reference = Reference.parse(image)
    with Registries(connection or Connection()) as registries:
        found = reference.digest or registries.repository(reference).digest_of(reference.target, num_attempts=1)
    return None if found is None else str(reference.at(found))


def layers_of(
    image: str, folder: Path, *, platform: Platform | None = None, connection: Connection | None = None
) -> Iterator[Path]:
    """Yield the layers of the image at a reference, the lowest first: as files in `folder`, each there until the next.

    Raises as `append` does.
    """
    reference, path = Reference.parse(image), folder / "layer"
    with Registries(connection or Connection()) as registries:
        repository = registries.repository(reference)
        for blob in repository.image(reference, platform).manifest.layers:
            repository.save(blob, path)
            yield path
            path.unlink()


@dataclass
class _Push:
    """One image into one repository; `source` is where the base's blobs are."""

    source: Repository | None
    target: Repository
    progress: Progress
    or_beside: bool
    done: dict[str, Transfer] = field(default_factory=dict)

    def run(self, composed: Composed, to: Reference) -> Pushed:
        """Push it."""
        digest, blobs = composed.image.manifest.digest, _blobs(composed)
        for blob in blobs:
            if self.target.holds(blob):
                self._tell(blob, "present", blob.size_bytes)
            else:
                self._supply(blob, composed.made.get(blob.digest))
        was = self.target.digest_of(to.target)
        if was != digest or any(one.way != "present" for one in self.done.values()):
            try:
                self._write(composed, blobs, to.target)
            except NotAccepted:
                if not self.or_beside or was in (None, digest):
                    raise
                self._write(composed, blobs, f"{to.target}-{digest.removeprefix('sha256:')[:12]}")
        return Pushed(str(to.at(digest)), was != digest, tuple(self.done.values()))

    def _write(self, composed: Composed, blobs: Sequence[Descriptor], tag: str) -> None:
        """Write the manifest, and see that all is there; what the registry has lost meanwhile is sent once more."""
        try:
            self._put(composed, tag)
        except RegistryError as error:
            if not any(code in error.problem for code in _BLOB_LOST):
                raise
        lost = self._lost(blobs)
        if lost:
            for blob in lost:
                self._supply(blob, composed.made.get(blob.digest))
            self._put(composed, tag)
            lost = self._lost(blobs)
        if lost or self.target.digest_of(tag) not in (None, composed.image.manifest.digest):
            what = f"blob {lost[0].digest}" if lost else f"the manifest at {tag}"
            raise Faulty(
                self.target.where, f"{what} was sent and taken, and is not there", "see its storage, or ask who runs it"
            )

    def _put(self, composed: Composed, tag: str) -> None:
        manifest = composed.image.manifest
        self.target.put_manifest(manifest.content, manifest.media_type, tag)

    def _lost(self, blobs: Sequence[Descriptor]) -> list[Descriptor]:
        return [blob for blob in blobs if not self.target.holds(blob)]

    def _supply(self, blob: Descriptor, source: Path | bytes | None) -> None:
        """Mount a blob, or copy it, or send it: `source` is there for one that is made here."""
        if source is not None:
            self._send(blob, source, "sent")
        elif self.source is None:
            raise Faulty(self.target.where, f"blob {blob.digest} is nowhere", "give the command again")
        elif self.source.transport is self.target.transport and upload.mount(self.target, blob, self.source.name):
            self._tell(blob, "mounted", blob.size_bytes)
        else:
            with tempfile.TemporaryDirectory(
                prefix="faas-blob-"
            ) as folder:  # whole and checked before any of it is sent
                path = Path(folder) / "blob"
                self.source.save(blob, path)
                self._send(blob, path, "copied")

    def _send(self, blob: Descriptor, source: Path | bytes, way: Literal["copied", "sent"]) -> None:
        self._tell(blob, way, 0)
        upload.upload(self.target, upload.Blob(blob, source), lambda done: self._tell(blob, way, done))
        self._tell(blob, way, blob.size_bytes)

    def _tell(self, blob: Descriptor, way: Literal["present", "mounted", "copied", "sent"], done: int) -> None:
        self.done[blob.digest] = Transfer(blob.digest, way, done, blob.size_bytes)
        self.progress(self.done[blob.digest])


def _blobs(composed: Composed) -> list[Descriptor]:
    """All that the manifest names, each digest once; the configuration last."""
    manifest = composed.image.manifest
    return list({blob.digest: blob for blob in (*manifest.layers, manifest.config)}.values())
