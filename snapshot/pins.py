"""Which snapshots of a store its readers are to keep at hand, whether anybody has asked for them yet or not.

    PREFIX/.pins/NAME       the digest of a snapshot of NAME, as text

One object for each name: who pins one changes no other, with no need of a lock. No snapshot can be called `.pins`.
"""

import re

from snapshot.errors import SnapshotNotFoundError
from snapshot.s3_address import S3Address
from snapshot.s3_client import S3Client, S3Options
from snapshot.store import check_name, is_name

PINS = ".pins"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Pins:
    """The pins of a store in S3. All methods raise RemoteError and BadAddressError."""

    def __init__(self, address: S3Address | str, options: S3Options | None = None) -> None:
        self.address = S3Address.parse(address) if isinstance(address, str) else address
        self._client = S3Client(self.address.bucket, options)
        self._read: dict[str, tuple[str, str]] = {}

    def pin(self, name: str, digest: str) -> None:
        """Have a snapshot of `name` kept, in place of the one that was. Raises BadNameError."""
        self._client.put(self.address.key(PINS, check_name(name)), digest.encode())

    def unpin(self, name: str) -> None:
        """Have no snapshot of `name` kept any more. Raises BadNameError, SnapshotNotFoundError."""
        key = self.address.key(PINS, check_name(name))
        if self._client.size(key) is None:
            raise SnapshotNotFoundError(f"{self.address} has no snapshot of {name!r} pinned")
        self._client.delete([key])

    def read(self) -> dict[str, str]:
        """The digests by name; only what has changed since this last read them is read. What is no digest is left out.

        Not for several threads at once.
        """
        prefix, known = self.address.key(PINS, ""), self._read
        self._read = {}
        for name, etag in self._client.etags(prefix):
            if not is_name(name):
                continue
            found = known.get(name)
            if found is None or found[0] != etag:
                content = self._client.get(prefix + name)
                found = (etag, "" if content is None else content.decode(errors="replace").strip())
            if _DIGEST.fullmatch(found[1]):
                self._read[name] = found
        return {name: digest for name, (_, digest) in sorted(self._read.items())}
