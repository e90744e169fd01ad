"""Where versions are: what can be looked at, and the file beside them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from faas.errors import FaasError
from snapshot.s3_address import is_s3


class SourceError(FaasError):
    """A source cannot be looked at: it is not there, or does not answer."""


@dataclass(frozen=True)
class Look:
    """What a source holds now.

    `places` are the versions, each with where it is: another place is another version of the same number. `file` is the
    content of the file beside them, None where there is none; `warnings` say, in words, what was odd. `stamps` are of
    versions whose files may be mended where they are: another one says that they have changed.
    """

    places: Mapping[int, str] = field(default_factory=dict)
    file: bytes | None = None
    warnings: tuple[str, ...] = ()
    stamps: Mapping[int, Hashable] = field(default_factory=dict)


class Source(Protocol):
    """Versions that lie somewhere. All of it takes its time: call it on a thread."""

    @property
    def title(self) -> str:
        """What messages call it."""
        ...

    def look(self) -> Look:
        """Return what is there now. Raises SourceError."""
        ...

    def write(self, content: bytes) -> None:
        """Replace the file beside the versions; whoever looks sees the old or the new. Raises SourceError."""
        ...


def find(place: str) -> Source:
    """Return the source at a folder, or at s3://bucket/prefix/NAME.

    Raises:
        SourceError: it is in S3, and what that needs is not installed.
        BadAddressError: it is no address in S3.
    """
    if is_s3(place):
        from faas.engine.versions.prefix import Prefix  # boto3 is nothing to an instance whose versions are here

        return Prefix(place)
    from faas.engine.versions.folder import Folder

    return Folder(place)
