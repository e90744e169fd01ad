"""Files of a snapshot as they are written: digested on the way, recorded afterwards."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from snapshot.digests import ChunkHasher
from snapshot.errors import BadDateError, HeaderTooLargeError
from snapshot.format import Content, Placement, lay_out, write_file
from snapshot.manifest import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    SKELETON_FILE,
    FileRecord,
    Manifest,
    Shard,
    StoredTensor,
    View,
)
from snapshot.reducers import kept_folder

_COPY_BYTES = 1 << 22


class _Digesting:
    """Passes writes on to a file and digests them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hasher = ChunkHasher()

    def write(self, content: bytes | memoryview) -> object:
        self._hasher.update(content)
        return self._file.write(content)

    def record(self, name: str) -> FileRecord:
        return FileRecord(name, self._hasher.num_bytes, *self._hasher.finish())


def write_shard(folder: Path, number: int, placements: Sequence[Placement], contents: Iterable[Content]) -> Shard:
    """Write the shard `number`, which counts from 1, with tensors in this order. Raises HeaderTooLargeError."""
    name = f"tensors-{number:05d}.safetensors"
    layout = lay_out(placements)
    with open(folder / name, "xb") as file:
        digesting = _Digesting(file)
        write_file(digesting, layout, contents)
    record = digesting.record(name)
    stored = tuple(
        StoredTensor(placed.name, placed.dtype, placed.shape, offset, placed.num_bytes)
        for placed, offset in zip(placements, layout.offsets, strict=True)
    )
    head = len(layout.head), blake3(layout.head).hexdigest()
    return Shard(name, record.num_bytes, record.digest, record.chunks, *head, stored)


def write_kept(folder: Path, number: int, files: Mapping[str, Path | bytes]) -> Iterator[FileRecord]:
    """Write the kept files `number`: path inside their folder -> the file to copy, or its content."""
    for name, content in files.items():
        chunks = [content] if isinstance(content, bytes) else _chunks(content)
        yield _write(folder, f"{kept_folder(number)}/{name}", chunks)


def write_manifest(
    folder: Path,
    skeleton: bytes,
    *,
    shards: tuple[Shard, ...],
    views: tuple[View, ...],
    files: tuple[FileRecord, ...],
    libraries: dict[str, str],
    meta: dict[str, object],
) -> Manifest:
    """Write the skeleton, and last the manifest, by which all of it becomes a snapshot. Raises HeaderTooLargeError."""
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        python="{}.{}.{}".format(*sys.version_info),
        libraries=libraries,
        created_at=_created_at(),
        skeleton=_write(folder, SKELETON_FILE, [skeleton]),
        shards=shards,
        views=views,
        files=files,
        meta=meta,
    )
    encoded = manifest.encode()
    if len(encoded) > MAX_MANIFEST_BYTES:
        raise HeaderTooLargeError(
            f"a manifest of {len(encoded)} bytes, for {len(views)} tensors and arrays, passes the limit of "
            f"{MAX_MANIFEST_BYTES} that readers hold; keep fewer, larger ones"
        )
    (folder / MANIFEST_FILE).write_bytes(encoded)
    return manifest


def _created_at() -> str:
    """Return the present time, or that of what is built (https://reproducible-builds.org/specs/source-date-epoch/)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC).isoformat()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise BadDateError(f"SOURCE_DATE_EPOCH={epoch!r}: must be whole seconds since 1970, or not be set") from None


def _write(folder: Path, name: str, chunks: Iterable[bytes]) -> FileRecord:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as file:
        digesting = _Digesting(file)
        for chunk in chunks:
            digesting.write(chunk)
    return digesting.record(name)


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(_COPY_BYTES):
            yield chunk
