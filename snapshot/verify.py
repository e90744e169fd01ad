"""The full check of a snapshot at rest."""

from pathlib import Path

from blake3 import blake3

from snapshot.errors import DigestMismatchError
from snapshot.format import read_header
from snapshot.manifest import Manifest, read_manifest
from snapshot.mapping import opened
from snapshot.thaw import check_header

_READ_BYTES = 1 << 22


def verify(folder: Path) -> Manifest:
    """Read every file of the snapshot in `folder` and compare size, headers and digest with the manifest.

    Nothing is unpickled. Raises SnapshotNotFoundError and DamagedError.
    """
    manifest = read_manifest(folder)
    for record in manifest.all_files:
        path = folder / record.file
        with opened(path, record.num_bytes) as descriptor, open(descriptor, "rb", closefd=False) as file:
            hasher = blake3()
            while chunk := file.read(_READ_BYTES):
                hasher.update(chunk)
        if hasher.hexdigest() != record.digest:
            raise DigestMismatchError(path, f"has digest {hasher.hexdigest()}, the manifest says {record.digest}")
    for shard in manifest.shards:
        path = folder / shard.file
        with opened(path) as descriptor:
            check_header(path, shard, read_header(path, descriptor))
    return manifest
