"""How images are named: `[registry/]repository[:tag][@sha256:digest]`, with Docker Hub's defaults filled in.

Grammar: the OCI distribution specification 1.1, "Pulling manifests". What stands before the first slash is a registry
if it holds a dot or a colon, or is `localhost`.
"""

import hashlib
import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Self

from deploy.image.errors import BadReference

DOCKER_HUB = "docker.io"

_DOCKER_HUB_NAMES = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")
_DOCKER_HUB_API = "registry-1.docker.io"
_REGISTRY = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::\d{1,5})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST = 255


@dataclass(frozen=True)
class Reference:
    """One image, or one state of it. Made by `parse`; at least one of `tag` and `digest` is there."""

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The image that `text` names; without tag and digest it is `latest`.

        Raises:
            BadReference: it names none.
        """
        rest, at, digest = text.partition("@")
        if at and not is_digest(digest):
            raise BadReference(f"{text!r} has a digest that is none", "write @sha256: and 64 hexadecimal digits")
        registry, path = _split(rest)
        repository, colon, tag = path.partition(":")
        if registry == DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        if not _REPOSITORY.fullmatch(repository) or len(f"{registry}/{repository}") > _LONGEST:
            raise BadReference(
                f"{text!r} names no image", "write it as registry/name:tag, in lower case with single separators"
            )
        if not _REGISTRY.fullmatch(registry):
            raise BadReference(f"{text!r} has no registry before its name", "write it as host:port/name:tag")
        if colon and not _TAG.fullmatch(tag):
            remedy = "use at most 128 letters, digits, '_', '.' and '-', a letter, digit or '_' first"
            raise BadReference(f"{text!r} has a tag that is none", remedy)
        return cls(registry, repository, tag if colon else None if at else "latest", digest if at else None)

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def target(self) -> str:
        """What to ask the registry for: the digest where there is one, else the tag."""
        return self.digest or self.tag or "latest"

    def at(self, digest: str) -> Self:
        """The same repository, one state of it."""
        return replace(self, tag=None, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}{f'@{self.digest}' if self.digest else ''}"


def is_digest(text: object) -> bool:
    """Whether `text` is a SHA-256 digest as registries write it; others are not taken."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def digest_of(content: bytes) -> str:
    """The SHA-256 digest of some bytes, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def api_host(registry: str) -> str:
    """The host that answers for a registry: Docker Hub's is called otherwise than the registry."""
    return _DOCKER_HUB_API if registry == DOCKER_HUB else registry


def is_loopback(registry: str) -> bool:
    """Whether a registry is on this machine, where it speaks plain HTTP unless it is told otherwise."""
    host = registry.rpartition(":")[0] if re.search(r":\d+\Z", registry) else registry
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _split(text: str) -> tuple[str, str]:
    host, slash, path = text.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        return DOCKER_HUB, text
    return (DOCKER_HUB if host in _DOCKER_HUB_NAMES else host), path
