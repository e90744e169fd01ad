"""Versions in S3, beside the snapshots of a store there: each a small object that names a snapshot by its digest.

PREFIX/NAME/versions/1                 the digest of version 1
PREFIX/NAME/versions/versions.json     what all instances follow
"""

from __future__ import annotations

import re
from typing import Final

from faas.engine.versions import plan
from faas.engine.versions.policies import named
from faas.engine.versions.source import Look, SourceError
from snapshot.errors import SnapshotError
from snapshot.s3_address import S3Address
from snapshot.s3_client import S3Client
from snapshot.store import VERSIONS

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Prefix:
    """A source that is a name in a store in S3: s3://bucket/prefix/NAME. Only what has changed is read again."""

    def __init__(self, address: str) -> None:
        where, name, _ = S3Address.of_snapshot(address)
        self.title = f"{where}/{name}"
        self._client = S3Client(where.bucket)
        self._prefix = where.key(name, VERSIONS, "")
        self._read: dict[str, tuple[str, bytes]] = {}

    def look(self) -> Look:
        """See `Source`."""
        try:
            etags = dict(self._client.etags(self._prefix))
            found = named(etags)
            contents = {name: self._content(name, etags[name]) for name in found.names.values()}
            places = {number: self._place(name, contents[name]) for number, name in found.names.items()}
            file = self._content(plan.FILE, etags[plan.FILE]) if plan.FILE in etags else None
        except SnapshotError as error:
            raise SourceError(str(error)) from error
        self._read = {name: read for name, read in self._read.items() if name in etags}
        return Look(places, file, found.warnings)

    def write(self, content: bytes) -> None:
        """See `Source`."""
        try:
            self._client.put(self._prefix + plan.FILE, content)
        except SnapshotError as error:
            raise SourceError(str(error)) from error

    def _place(self, name: str, content: bytes) -> str:
        digest = content.decode(errors="replace").strip()
        if not _DIGEST.fullmatch(digest):  # without one, the address would be that of the latest
            raise SourceError(f"{self.title}/{VERSIONS}/{name} holds {digest[:80]!r}, which is no snapshot's digest")
        return f"{self.title}@{digest}"

    def _content(self, name: str, etag: str) -> bytes:
        known = self._read.get(name)
        if known is None or known[0] != etag:
            known = self._read[name] = (etag, self._client.get(self._prefix + name) or b"")
        return known[1]
