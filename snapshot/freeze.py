"""From an object graph to a snapshot."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from snapshot import arrays, libraries, paths, tensors
from snapshot.format import Content
from snapshot.manifest import Manifest, Shard, View
from snapshot.plan import DEFAULT_SHARD_BYTES, Stored, plan
from snapshot.writer import write_kept, write_manifest, write_shard

if TYPE_CHECKING:
    from snapshot.skeleton import SkeletonPickler

_LIBRARY_OF_FORM = {"numpy": "numpy", "torch": "torch", "parameter": "torch", "storage": "torch"}
_NO_META: Mapping[str, object] = {}
_NOTHING: Mapping[int, object] = {}


def freeze(
    state: object,
    folder: Path,
    *,
    meta: Mapping[str, object] = _NO_META,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    replacing: Mapping[int, object] = _NOTHING,
) -> Manifest:
    """Write `state` and all it refers to as a snapshot in `folder`, which must not exist.

    The folder appears whole or not at all. `meta` is the caller's, kept in the manifest, and must be JSON. A shard
    ends where its next tensor would take it past `shard_bytes`. Wherever the object of an id in `replacing` is met,
    what is given for it is written in its place.
    Raises Unfreezable, SnapshotExistsError, HeaderTooLargeError; TypeError when `meta` is not JSON.
    """
    # Local: cloudpickle and shutil, which they import, are nothing to those who only thaw.
    from snapshot.skeleton import pickle_graph
    from snapshot.staging import staged_folder

    json_meta = msgspec.json.decode(msgspec.json.encode(meta), type=dict[str, object])
    with staged_folder(folder) as staging:
        skeleton, pickler = pickle_graph(state, replacing)
        shards, views = _write_shards(staging, state, pickler, shard_bytes)
        return write_manifest(
            staging,
            skeleton,
            shards=shards,
            views=views,
            files=tuple(
                record for number, kept in enumerate(pickler.kept) for record in write_kept(staging, number, kept.files)
            ),
            libraries=libraries.distributions_of(_modules(pickler)),
            meta=json_meta,
        )


def _modules(pickler: "SkeletonPickler") -> set[str]:
    makers = {_LIBRARY_OF_FORM[source.form] for source in pickler.sources if source.form in _LIBRARY_OF_FORM}
    return makers | pickler.modules


def _write_shards(
    staging: Path, state: object, pickler: "SkeletonPickler", shard_bytes: int
) -> tuple[tuple[Shard, ...], tuple[View, ...]]:
    named = paths.find(state, pickler.contents)
    names = [
        paths.dotted(named.get(id(content), ())) or f"tensor.{number}"
        for number, content in enumerate(pickler.contents)
    ]
    planned = plan(pickler.sources, names, shard_bytes=shard_bytes)
    shards = tuple(
        write_shard(
            staging, number, [tensor.placement for tensor in stored], (_content(tensor, pickler) for tensor in stored)
        )
        for number, stored in enumerate(planned.shards, start=1)
    )
    return shards, planned.views


def _content(stored: Stored, pickler: "SkeletonPickler") -> Content:
    """The bytes of a stored tensor, in place where they can be had in place."""
    content, source = pickler.contents[stored.members[0]], pickler.sources[stored.members[0]]
    num_bytes = stored.placement.num_bytes - stored.lead
    if not num_bytes:
        return []
    if stored.compacted:
        return [arrays.c_order_bytes(content) if source.form == "numpy" else tensors.c_order_bytes(content)]
    if stored.device != "cpu":
        return [tensors.device_bytes(content, stored.address, num_bytes)]
    # All memory between the lowest and the highest byte belongs to contents that the pickler keeps alive.
    memory = memoryview((ctypes.c_ubyte * num_bytes).from_address(stored.address)).cast("B")
    return [bytes(stored.lead), memory]
