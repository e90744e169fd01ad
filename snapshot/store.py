"""Where snapshots are kept by name, each name with a history of which one is the latest."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from snapshot.errors import BadNameError
from snapshot.manifest import SHORT_DIGEST_LENGTH

LATEST = "latest"
VERSIONS = "versions"
"""What lies there of a name leads from numbers to its snapshots."""
MAX_NAME_LENGTH = 128
_LISTED = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class StoredSnapshot(msgspec.Struct, frozen=True):
    """One snapshot of a store. `created_at`: UTC, ISO 8601."""

    name: str
    digest: str
    created_at: str
    is_latest: bool

    @property
    def short_digest(self) -> str:
        """What stores name its place by."""
        return self.digest[:SHORT_DIGEST_LENGTH]


class Store(Protocol):
    """Holds the snapshots of many names. Every name is checked by `check_name` first."""

    def publish(self, name: str, folder: Path) -> StoredSnapshot:
        """Take in the snapshot in `folder`, which stays as it is, and make it the latest of `name`.

        Only files that the store lacks, under any name, are taken in, and their digests are checked. Whoever looks
        sees the whole of it or nothing. Publishing what is there already only makes it the latest.
        """

    def find(self, name: str, digest: str | None = None) -> StoredSnapshot:
        """The snapshot of `name` whose digest begins with `digest`, or the latest.

        Raises SnapshotNotFoundError when there is none, or more than one.
        """

    def names(self) -> list[str]:
        """Every name that has a snapshot, in order."""

    def history(self, name: str) -> list[StoredSnapshot]:
        """All snapshots of `name`, the newest first; empty when there is none."""

    def prune(self, name: str, *, keep: int) -> list[StoredSnapshot]:
        """Remove all but the `keep` newest, the latest and the numbered ones, and say which went."""

    def versions(self, name: str) -> dict[int, str]:
        """The versions of `name`: numbers, each with the digest of its snapshot, or the beginning of that."""

    def number(self, name: str, version: int, digest: str) -> None:
        """Make the snapshot of `name` with this digest a version of it.

        Raises SnapshotNotFoundError when there is no such snapshot, SnapshotExistsError when there is such a version.
        """

    def unnumber(self, name: str, version: int) -> None:
        """Have a version be none any more; its snapshot stays until it is pruned.

        Raises SnapshotNotFoundError when there is no such version.
        """


def is_name(name: str) -> bool:
    """Whether a store takes `name`."""
    return bool(_NAME.fullmatch(name)) and len(name) <= MAX_NAME_LENGTH


def check_name(name: str) -> str:
    """`name` itself, when it is one that a store takes. Raises BadNameError."""
    if not is_name(name):
        raise BadNameError(
            f"{name!r} is no name for a snapshot: take 1 to {MAX_NAME_LENGTH} of the letters a-z, A-Z, digits, "
            f"'.', '_' and '-', a letter or digit first"
        )
    return name


def listed(names: Sequence[str]) -> str:
    """The first few of several names, for a message."""
    return ", ".join([*names[:_LISTED], *(["..."] if len(names) > _LISTED else [])]) or "nothing"
