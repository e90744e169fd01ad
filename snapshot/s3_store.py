"""A store that is a bucket in S3, or what lies under a prefix of one.

    PREFIX/blobs/DIGEST                 the files of all snapshots by their content addresses, each held once
    PREFIX/NAME/0123456789abcdef/manifest.json      a snapshot, named by the beginning of its digest
    PREFIX/NAME/latest                  the digest of one of them, as text
    PREFIX/NAME/versions/1              the digest of version 1, as text, which is kept while it is there

Written in this order, so that whoever finds a snapshot finds all of it. Objects appear whole or not at all; what a
publisher that was killed has left is a blob that the next one need not send. Any other key is left alone.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from snapshot import s3_errors
from snapshot.arrivals import Progress
from snapshot.blobs import BLOBS
from snapshot.errors import (
    AccessDeniedError,
    DamagedError,
    DigestMismatchError,
    FormatVersionError,
    SnapshotError,
    SnapshotExistsError,
    SnapshotNotFoundError,
)
from snapshot.local_store import LocalStore
from snapshot.manifest import MANIFEST_FILE, SHORT_DIGEST_LENGTH, FileRecord, Manifest, Shard
from snapshot.manifest_reading import parse_manifest, read_manifest
from snapshot.pull import NUM_STREAMS, Pulling
from snapshot.ranges import RangeReader, Refused
from snapshot.s3_address import S3Address
from snapshot.s3_client import S3Client, S3Options
from snapshot.store import LATEST, VERSIONS, StoredSnapshot, check_name, is_name, listed
from snapshot.verify import check_file

T = TypeVar("T")
R = TypeVar("R")

_SHORT = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST_LENGTH}}}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUM_UPLOADS = 4
_NUM_ASKED_AT_ONCE = 8
# Whoever publishes may be about to name a blob that no snapshot names yet.
_KEPT_FOR_S = 24 * 3600.0


class S3Store:
    """A `Store` in S3. Raises RemoteError and BadAddressError besides what `Store` says.

    Pruning removes manifests at once, and blobs that no snapshot has when they are older than a day. That is safe
    beside publishers which take less long; let one process at a time prune.
    """

    def __init__(self, address: S3Address | str, options: S3Options | None = None) -> None:
        self.address = S3Address.parse(address) if isinstance(address, str) else address
        self._client = S3Client(self.address.bucket, options)

    def publish(self, name: str, folder: Path, progress: Progress | None = None) -> StoredSnapshot:
        """See `Store.publish`. `progress` hears of the bytes that are there or were sent.

        Raises BadNameError, SnapshotNotFoundError, DamagedError.
        """
        check_name(name)
        manifest = read_manifest(folder)
        records = {record.digest: record for record in manifest.all_files}
        sent = _Sent(sum(record.num_bytes for record in records.values()), progress)
        with ThreadPoolExecutor(_NUM_UPLOADS) as threads:
            for _ in threads.map(lambda record: self._send(folder, record, sent), records.values()):
                pass
        self._client.put(self._manifest_key(name, manifest.digest), manifest.encode())
        self._client.put(self.address.key(name, LATEST), manifest.digest.encode())
        return StoredSnapshot(name, manifest.digest, manifest.created_at, is_latest=True)

    def pull(
        self,
        name: str,
        digest: str | None = None,
        *,
        into: LocalStore,
        progress: Progress | None = None,
        num_streams: int = NUM_STREAMS,
    ) -> Pulling:
        """Begin to copy a snapshot, found as `find` does, into a folder store, and make it the latest there."""
        stored, manifest = self.locate(name, digest)
        source = _Blobs(self._client, self.address)
        return Pulling(source, stored, manifest, into, progress=progress, num_streams=num_streams)

    def find(self, name: str, digest: str | None = None) -> StoredSnapshot:
        """See `Store.find`. Raises DamagedError when the manifest found is damaged."""
        return self.locate(name, digest)[0]

    def locate(self, name: str, digest: str | None = None) -> tuple[StoredSnapshot, Manifest]:
        """Find a snapshot as `find` does, with its manifest."""
        check_name(name)
        latest = self._latest(name)
        wanted = latest if digest is None else digest
        if wanted is not None and _DIGEST.fullmatch(wanted):
            found = self._read(name, wanted[:SHORT_DIGEST_LENGTH])
            if found is not None and digest is None:
                self._check_digest(name, found, wanted)
            if found is not None and found.digest == wanted:
                return _stored(name, found, latest), found
        folders = self._folders(name)
        fitting = [short for short in folders if wanted is not None and _begin_alike(short, wanted)]
        if len(fitting) != 1:
            raise self._not_found(name, digest, folders, several=bool(fitting))
        found = self._read(name, fitting[0])
        if found is None or not found.digest.startswith(wanted or ""):
            raise self._not_found(name, digest, folders, several=False)
        return _stored(name, found, latest), found

    def names(self) -> list[str]:
        """See `Store.names`."""
        names = [name for name in self._client.folders(self.address.key("")) if is_name(name)]
        return sorted(name for name, folders in zip(names, _at_once(self._folders, names), strict=True) if folders)

    def history(self, name: str) -> list[StoredSnapshot]:
        """See `Store.history`. Newest is the one frozen last. Raises DamagedError when a manifest is damaged."""
        latest = self._latest(check_name(name))
        manifests = _at_once(lambda short: self._read_usable(name, short), self._folders(name))
        history = [_stored(name, manifest, latest) for manifest in manifests if manifest is not None]
        return sorted(history, key=lambda stored: (stored.created_at, stored.digest), reverse=True)

    def prune(self, name: str, *, keep: int) -> list[StoredSnapshot]:
        """See `Store.prune`."""
        if keep < 0:
            raise ValueError(f"cannot keep {keep} snapshots: give 0 or more")
        numbered = set(self.versions(name).values())
        spare = [stored for stored in self.history(name)[keep:] if stored.digest not in numbered]
        removed = [stored for stored in spare if not stored.is_latest]
        self._client.delete([self._manifest_key(stored.name, stored.digest) for stored in removed])
        prefix = self.address.key(BLOBS, "")
        old = [key for key, age_s in self._client.objects(prefix) if _DIGEST.fullmatch(key) and age_s > _KEPT_FOR_S]
        if old:
            with contextlib.suppress(FormatVersionError):  # what a snapshot of another format holds is not known here
                held = self._held()
                self._client.delete([prefix + digest for digest in old if digest not in held])
        return removed

    def versions(self, name: str) -> dict[int, str]:
        """See `Store.versions`."""
        prefix = self.address.key(check_name(name), VERSIONS, "")
        numbers = [key for key, _ in self._client.objects(prefix) if key.isdecimal()]
        contents = _at_once(lambda number: self._client.get(prefix + number), numbers)
        found = zip(numbers, contents, strict=True)
        return {int(number): one.decode(errors="replace").strip() for number, one in found if one is not None}

    def number(self, name: str, version: int, digest: str) -> None:
        """See `Store.number`."""
        stored = self.find(name, digest)
        if version in self.versions(name):
            raise SnapshotExistsError(f"{self.address}/{name} has a version {version} already")
        self._client.put(self.address.key(name, VERSIONS, str(version)), stored.digest.encode())

    def unnumber(self, name: str, version: int) -> None:
        """See `Store.unnumber`."""
        known = self.versions(name)
        if version not in known:
            among = listed([str(number) for number in sorted(known)])
            raise SnapshotNotFoundError(f"{self.address}/{name} has no version {version}; it has: {among}")
        self._client.delete([self.address.key(name, VERSIONS, str(version))])

    def _held(self) -> set[str]:
        """The digests of all files of all snapshots.

        Raises DamagedError and FormatVersionError: what cannot be read may hold anything.
        """
        places = [(name, short) for name in self.names() for short in self._folders(name)]
        manifests = _at_once(lambda place: self._read(*place), places)
        return {record.digest for one in manifests if one is not None for record in one.all_files}

    def _send(self, folder: Path, record: FileRecord | Shard, sent: "_Sent") -> None:
        key = self.address.key(BLOBS, record.digest)
        try:
            size_there = self._client.size(key)
        except AccessDeniedError:  # also what is answered of a missing key to whoever may not list the bucket
            size_there = None
        if size_there == record.num_bytes:
            sent.add(record.num_bytes)
            return
        path = folder / record.file
        check_file(path, record)  # one wrong file under a right address would spoil every snapshot that shares it
        self._client.upload(key, path, sent.add)

    def _latest(self, name: str) -> str | None:
        key = self.address.key(name, LATEST)
        content = self._client.get(key)
        if content is None:
            return None
        latest = content.decode(errors="replace").strip()
        if not _DIGEST.fullmatch(latest):
            raise self._damaged(DamagedError(Path(key), f"is no digest: {latest[:80]!r}"))
        return latest

    def _folders(self, name: str) -> list[str]:
        return [short for short in self._client.folders(self.address.key(name, "")) if _SHORT.fullmatch(short)]

    def _read(self, name: str, short: str) -> Manifest | None:
        key = self._manifest_key(name, short)
        encoded = self._client.get(key)
        if encoded is None:
            return None
        try:
            return parse_manifest(Path(key), encoded)
        except DamagedError as error:
            raise self._damaged(error) from error

    def _read_usable(self, name: str, short: str) -> Manifest | None:
        """The same; None also for a snapshot of a format that nothing here can use."""
        with contextlib.suppress(FormatVersionError):
            return self._read(name, short)
        return None

    def _check_digest(self, name: str, manifest: Manifest, digest: str) -> None:
        if manifest.digest != digest:
            path = Path(self._manifest_key(name, digest))
            raise self._damaged(DigestMismatchError(path, f"is {manifest.digest}, asked for was {digest}"))

    def _damaged(self, error: DamagedError) -> DamagedError:
        """The same error, of a file in this bucket."""
        return type(error)(error.path, f"{error.problem} (in {S3Address(self.address.bucket)}; push it again)")

    def _not_found(self, name: str, digest: str | None, folders: Sequence[str], *, several: bool) -> SnapshotError:
        if not folders:
            return SnapshotNotFoundError(f"{self.address} has no snapshot of {name!r}; it has: {listed(self.names())}")
        fault = "several snapshots" if several else "no snapshot"
        return SnapshotNotFoundError(
            f"{fault} of {name!r} in {self.address} for {digest or LATEST!r}, among: {listed(folders)}"
        )

    def _manifest_key(self, name: str, digest: str) -> str:
        return self.address.key(name, digest[:SHORT_DIGEST_LENGTH], MANIFEST_FILE)


class _Blobs:
    """A `Source`: the blobs of a store, by signed addresses."""

    def __init__(self, client: S3Client, address: S3Address) -> None:
        self._client = client
        self._where = address

    def address(self, digest: str) -> str:
        return self._client.address(self._where.key(BLOBS, digest))

    def url(self, digest: str) -> str:
        return self._client.signed(self._where.key(BLOBS, digest))

    def renew(self, url: str, refused: Refused) -> bool:
        # A signature that has run out is refused as if it allowed nothing, or as one of another time.
        has_run_out = s3_errors.is_skewed(refused.code) or "expired" in refused.message.lower()
        if not has_run_out and not s3_errors.is_stale(refused.code):
            return False
        self._client.renew(url)
        return True

    def error(self, digest: str, refused: Refused) -> SnapshotError:
        return s3_errors.refused(refused.code, refused.message, self.address(digest), self._client.endpoint)

    def reader(self) -> RangeReader:
        return RangeReader(ca_bundle=self._client.ca_bundle, proxy_of=self._client.proxy_of)


class _Sent:
    """Adds up what several threads have sent."""

    def __init__(self, total_bytes: int, progress: Progress | None) -> None:
        self._total_bytes = total_bytes
        self._sent_bytes = 0
        self._progress = progress
        self._lock = threading.Lock()

    def add(self, num_bytes: int) -> None:
        with self._lock:
            self._sent_bytes += num_bytes
            if self._progress is not None:
                self._progress(self._sent_bytes, self._total_bytes)


def _at_once(ask: Callable[[T], R], of: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_NUM_ASKED_AT_ONCE) as threads:
        return list(threads.map(ask, of))


def _stored(name: str, manifest: Manifest, latest: str | None) -> StoredSnapshot:
    return StoredSnapshot(name, manifest.digest, manifest.created_at, manifest.digest == latest)


def _begin_alike(short: str, digest: str) -> bool:
    return short.startswith(digest) or digest.startswith(short)
