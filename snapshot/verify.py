"""The full check of a snapshot at rest."""

from pathlib import Path

from snapshot.digests import ChunkHasher, chunk_ranges
from snapshot.errors import DigestMismatchError
from snapshot.format import read_header
from snapshot.manifest import FileRecord, Manifest, Shard, read_manifest
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
            hasher = ChunkHasher()
            while content := file.read(_READ_BYTES):
                hasher.update(content)
        _compare(path, record, hasher.finish()[1])
    for shard in manifest.shards:
        path = folder / shard.file
        with opened(path) as descriptor:
            check_header(path, shard, read_header(path, descriptor))
    return manifest


def _compare(path: Path, record: FileRecord | Shard, chunks: tuple[str, ...]) -> None:
    for (begin, end), found, listed in zip(chunk_ranges(record.num_bytes), chunks, record.chunks, strict=True):
        if found != listed:
            raise DigestMismatchError(path, f"has digest {found} at bytes {begin} to {end}, the manifest says {listed}")
