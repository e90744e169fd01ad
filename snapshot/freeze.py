"""From an object graph to a snapshot."""

import ctypes
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from blake3 import blake3

from snapshot import arrays, libraries, paths, tensors
from snapshot.digests import ChunkHasher
from snapshot.format import lay_out, write_file
from snapshot.manifest import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    SKELETON_FILE,
    FileRecord,
    Manifest,
    Shard,
    StoredTensor,
    View,
)
from snapshot.plan import DEFAULT_SHARD_BYTES, Stored, plan
from snapshot.reducers import kept_folder

if TYPE_CHECKING:
    from snapshot.skeleton import SkeletonPickler

_LIBRARY_OF_FORM = {"numpy": "numpy", "torch": "torch", "parameter": "torch", "storage": "torch"}
_COPY_BYTES = 1 << 22
_NO_META: Mapping[str, object] = {}


def freeze(
    state: object,
    folder: Path,
    *,
    meta: Mapping[str, object] = _NO_META,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
) -> Manifest:
    """Write `state` and all it refers to as a snapshot in `folder`, which must not exist.

    The folder appears whole or not at all. `meta` is the caller's, kept in the manifest, and must be JSON. A shard
    ends where its next tensor would take it past `shard_bytes`.
    Raises Unfreezable, SnapshotExistsError, HeaderTooLargeError; TypeError when `meta` is not JSON.
    """
    # Local: cloudpickle and shutil, which they import, are nothing to those who only thaw.
    from snapshot.skeleton import pickle_graph
    from snapshot.staging import staged_folder

    json_meta = msgspec.json.decode(msgspec.json.encode(meta), type=dict[str, object])
    with staged_folder(folder) as staging:
        skeleton, pickler = pickle_graph(state)
        shards, views = _write_shards(staging, state, pickler, shard_bytes)
        manifest = Manifest(
            format_version=FORMAT_VERSION,
            python="{}.{}.{}".format(*sys.version_info),
            libraries=libraries.distributions_of(_modules(pickler)),
            created_at=datetime.now(UTC).isoformat(),
            skeleton=_write(staging, SKELETON_FILE, [skeleton]),
            shards=shards,
            views=views,
            files=tuple(_write_kept(staging, pickler)),
            meta=json_meta,
        )
        (staging / MANIFEST_FILE).write_bytes(manifest.encode())
    return manifest


def _modules(pickler: "SkeletonPickler") -> set[str]:
    makers = {_LIBRARY_OF_FORM[source.form] for source in pickler.sources if source.form in _LIBRARY_OF_FORM}
    return makers | pickler.modules


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


def _write_shards(
    staging: Path, state: object, pickler: "SkeletonPickler", shard_bytes: int
) -> tuple[tuple[Shard, ...], tuple[View, ...]]:
    named = paths.find(state, pickler.contents)
    names = [
        paths.dotted(named.get(id(content), ())) or f"tensor.{number}"
        for number, content in enumerate(pickler.contents)
    ]
    planned = plan(pickler.sources, names, shard_bytes=shard_bytes)
    shards = []
    for number, stored in enumerate(planned.shards, start=1):
        name = f"tensors-{number:05d}.safetensors"
        layout = lay_out([tensor.placement for tensor in stored])
        with open(staging / name, "xb") as file:
            digesting = _Digesting(file)
            write_file(digesting, layout, (_content(tensor, pickler) for tensor in stored))
        record = digesting.record(name)
        tensors_of_shard = tuple(
            StoredTensor(placed.name, placed.dtype, placed.shape, offset, placed.num_bytes)
            for placed, offset in zip((tensor.placement for tensor in stored), layout.offsets, strict=True)
        )
        head = len(layout.head), blake3(layout.head).hexdigest()
        shards.append(Shard(name, record.num_bytes, record.digest, record.chunks, *head, tensors_of_shard))
    return tuple(shards), planned.views


def _content(stored: Stored, pickler: "SkeletonPickler") -> memoryview | bytes:
    """The bytes of a stored tensor, in place where they can be had in place."""
    content, source = pickler.contents[stored.members[0]], pickler.sources[stored.members[0]]
    num_bytes = stored.placement.num_bytes - stored.lead
    if not num_bytes:
        return b""
    if stored.compacted:
        return arrays.c_order_bytes(content) if source.form == "numpy" else tensors.c_order_bytes(content)
    if stored.device != "cpu":
        return tensors.device_bytes(content, stored.address, num_bytes)
    # All memory between the lowest and the highest byte belongs to contents that the pickler keeps alive.
    memory = memoryview((ctypes.c_ubyte * num_bytes).from_address(stored.address)).cast("B")
    return bytes(stored.lead) + memory if stored.lead else memory


def _write(staging: Path, name: str, chunks: Iterable[bytes]) -> FileRecord:
    path = staging / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as file:
        digesting = _Digesting(file)
        for chunk in chunks:
            digesting.write(chunk)
    return digesting.record(name)


def _write_kept(staging: Path, pickler: "SkeletonPickler") -> Iterator[FileRecord]:
    for number, kept in enumerate(pickler.kept):
        for name, content in kept.files.items():
            path = f"{kept_folder(number)}/{name}"
            yield _write(staging, path, [content] if isinstance(content, bytes) else _chunks(content))


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(_COPY_BYTES):
            yield chunk
