"""What images consist of, as documents: descriptors, manifests, indexes and configurations. Pure.

Sources: the OCI image specification 1.1 and Docker's "Image Manifest Version 2, Schema 2". The two differ in names
alone. Everything that comes from a registry is checked here before it is used.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from deploy.image.errors import BadImage, BadReference, WrongPlatform
from deploy.image.reference import digest_of, is_digest

MAX_BYTES: Final = 4 << 20
"""What a manifest or a configuration may have; registries take no larger manifests."""
_MAX_LAYERS = 1024
_MAX_BLOB_BYTES = 1 << 50

OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
OCI_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG: Final = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER: Final = "application/vnd.docker.image.rootfs.diff.tar.gzip"

ACCEPT: Final = ", ".join((OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST))
LAYER_OF: Final = {OCI_MANIFEST: OCI_LAYER, DOCKER_MANIFEST: DOCKER_LAYER}

_INDEXES = (OCI_INDEX, DOCKER_LIST)
_PLATFORM = re.compile(r"([a-z0-9]+)/([a-z0-9_]+)(?:/([a-z0-9]+))?")


@dataclass(frozen=True)
class Platform:
    """A machine that images are made for, in Go's words: `linux/amd64`, `linux/arm64/v8`."""

    os: str = "linux"
    architecture: str = "amd64"
    variant: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises BadReference."""
        found = _PLATFORM.fullmatch(text)
        if found is None:
            raise BadReference(f"{text!r} is no platform", "write it as linux/amd64 or linux/arm64")
        return cls(found[1], found[2], found[3])

    def admits(self, other: Mapping[str, Any]) -> bool:
        """Whether a `platform` of an index, or a configuration, is for this machine."""
        same = (other.get("os"), other.get("architecture")) == (self.os, self.architecture)
        return same and (self.variant is None or other.get("variant") in (None, "", self.variant))

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))


@dataclass(frozen=True)
class Descriptor:
    """A blob by its media type, digest and size."""

    media_type: str
    digest: str
    size_bytes: int

    @classmethod
    def of(cls, document: object, where: str) -> Self:
        """Raises BadImage."""
        if not isinstance(document, Mapping):
            raise _bad(where, f"a descriptor is {document!r:.80}")
        media_type, digest, size = (document.get(key) for key in ("mediaType", "digest", "size"))
        if not isinstance(media_type, str):
            raise _bad(where, f"a descriptor's mediaType is {media_type!r:.80}")
        if not isinstance(digest, str) or not is_digest(digest):
            raise _bad(where, f"a descriptor's digest is {digest!r:.80}, and only SHA-256 is known here")
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_BLOB_BYTES:
            raise _bad(where, f"the size of {digest} is {size!r:.80}")
        return cls(media_type, digest, size)

    def document(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size_bytes}


@dataclass(frozen=True)
class Manifest:
    """An image's manifest as a registry gave it: `content` is what its digest is of."""

    content: bytes
    media_type: str
    document: Mapping[str, Any]
    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def digest(self) -> str:
        """The image's."""
        return digest_of(self.content)

    @classmethod
    def of(cls, content: bytes, media_type: str, where: str) -> Self:
        """Raises BadImage."""
        document = parsed(content, where)
        if media_type not in LAYER_OF:
            raise _bad(where, f"a manifest of type {media_type!r:.100} is none of an image in OCI's or Docker's form")
        layers = document.get("layers")
        if not isinstance(layers, list) or len(layers) > _MAX_LAYERS:
            raise _bad(where, f"its layers are no list of at most {_MAX_LAYERS}")
        config = Descriptor.of(document.get("config"), where)
        if config.media_type not in (OCI_CONFIG, DOCKER_CONFIG):
            raise _bad(where, f"it is no container's image but {config.media_type!r:.100}")
        return cls(content, media_type, document, config, tuple(Descriptor.of(layer, where) for layer in layers))


@dataclass(frozen=True)
class Image:
    """A manifest with the configuration that it names."""

    manifest: Manifest
    config_content: bytes
    config: Mapping[str, Any]

    @classmethod
    def of(cls, manifest: Manifest, content: bytes, where: str) -> Self:
        """Raises BadImage."""
        config = parsed(content, where)
        rootfs = config.get("rootfs")
        diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, Mapping) else None
        if not isinstance(diff_ids, list) or not all(map(is_digest, diff_ids)):
            raise _bad(where, "its configuration has no rootfs.diff_ids")
        if len(diff_ids) != len(manifest.layers):
            raise _bad(where, f"it has {len(manifest.layers)} layers, and its configuration {len(diff_ids)}")
        for name, kind in (("config", dict), ("history", list)):
            if config.get(name) is not None and not isinstance(config[name], kind):
                raise _bad(where, f"{name} of its configuration is {config[name]!r:.80}")
        return cls(manifest, content, config)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What a container of it runs with: `Env`, `Entrypoint`, `User` and so on."""
        return self.config.get("config") or {}

    @property
    def environment(self) -> dict[str, str]:
        """`Env`, by name."""
        env = self.settings.get("Env") or ()
        pairs = (entry.partition("=") for entry in env if isinstance(entry, str))
        return {name: value for name, _, value in pairs}

    @property
    def labels(self) -> Mapping[str, str]:
        """`Labels`."""
        found = self.settings.get("Labels")
        return found if isinstance(found, Mapping) else {}

    def check_platform(self, platform: Platform, where: str) -> None:
        """Raises WrongPlatform."""
        if not platform.admits(self.config):
            own = f"{self.config.get('os')!s:.40}/{self.config.get('architecture')!s:.40}"
            raise WrongPlatform(f"{where} is for {own} and not {platform}", "name the platform, or another image")


def parsed(content: bytes, where: str) -> Mapping[str, Any]:
    """A JSON object. Raises BadImage."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _bad(where, f"it is no JSON ({error!s:.100})") from None
    if not isinstance(document, dict):
        raise _bad(where, "it is no JSON object")
    return document


def media_type_of(content: bytes, header: str, where: str) -> str:
    """The type of a manifest: what it says itself, which its digest covers, before what the answer's header says."""
    document = parsed(content, where)
    if document.get("schemaVersion") == 1:
        remedy = "push it anew with a current Docker, which turns it into a form that is still in use"
        raise BadImage(f"{where} is in Docker's first form of manifests, which nothing runs any more", remedy)
    said = document.get("mediaType")
    return said if isinstance(said, str) else header.partition(";")[0].strip()


def is_index(media_type: str) -> bool:
    """Whether a manifest is one of manifests for several platforms."""
    return media_type in _INDEXES


def pick(content: bytes, platform: Platform | None, where: str) -> Descriptor:
    """The manifest for `platform` in an index; None stands for the only one there is, and else for the usual one.

    Raises BadImage, and WrongPlatform where there is none.
    """
    entries = list(_entries(content, where))
    if len(entries) == 1 and (platform is None or not entries[0][1]):  # its own configuration says what it is for
        return entries[0][0]
    platform = platform or Platform()
    for descriptor, entry in entries:
        if platform.admits(entry):
            return descriptor
    there = sorted({f"{entry.get('os')!s:.40}/{entry.get('architecture')!s:.40}" for _, entry in entries if entry})
    raise WrongPlatform(f"{where} has nothing for {platform}", f"it has: {', '.join(there[:20]) or 'no image'}")


def _entries(content: bytes, where: str) -> Iterator[tuple[Descriptor, Mapping[str, Any]]]:
    manifests = parsed(content, where).get("manifests")
    if not isinstance(manifests, list) or len(manifests) > _MAX_LAYERS:
        raise _bad(where, f"its manifests are no list of at most {_MAX_LAYERS}")
    for entry in manifests:
        descriptor = Descriptor.of(entry, where)
        platform = entry.get("platform") or {}
        if descriptor.media_type in LAYER_OF and isinstance(platform, Mapping) and platform.get("os") != "unknown":
            yield descriptor, platform


def _bad(where: str, what: str) -> BadImage:
    return BadImage(f"{where} is no image that can be used: {what}", "push it anew, or name another")
