"""The full check of a snapshot at rest."""

from pathlib import Path

from snapshot.digests import ChunkHasher, chunk_ranges
from snapshot.errors import DigestMismatchError
from snapshot.format import read_header
from snapshot.manifest import FileRecord, Manifest, Shard
from snapshot.manifest_reading import read_manifest
from snapshot.mapping import opened
from snapshot.thaw import check_header

_READ_BYTES = 1 << 22


def verify(folder: Path) -> Manifest:
    """Read every file of the snapshot in `folder` and compare size, headers and digest with the manifest.

    Nothing is unpickled. Raises SnapshotNotFoundError and DamagedError.
    """
    manifest = read_manifest(folder)
    for record in manifest.all_files:
        check_file(folder / record.file, record)
    for shard in manifest.shards:
        path = folder / shard.file
        with opened(path) as descriptor:
            check_header(path, shard, read_header(path, descriptor))
    return manifest


def check_file(path: Path, record: FileRecord | Shard) -> None:
    """Read the file at `path` and compare its size and digests with its record.

    Raises SizeMismatchError and DigestMismatchError.
    """
    hasher = ChunkHasher()
    with opened(path, record.num_bytes) as descriptor, open(descriptor, "rb", closefd=False) as file:
        while content := file.read(_READ_BYTES):
            hasher.update(content)
    _, chunks = hasher.finish()
    for (begin, end), found, listed in zip(chunk_ranges(record.num_bytes), chunks, record.chunks, strict=True):
        if found != listed:
            raise DigestMismatchError(path, f"has digest {found} at bytes {begin} to {end}, the manifest says {listed}")
