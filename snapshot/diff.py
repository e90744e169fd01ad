"""What two snapshots have in common and what not.

Tensors are compared by name. Two are the same when their type, shape and bytes are; of those with other names, one is
the other renamed when all three are the same. Bytes are compared by their BLAKE3 digests, which are taken only where
the manifests do not tell already: a tensor at the same place of equal files is the same.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from blake3 import blake3

from snapshot.manifest import Manifest, Shard, StoredTensor
from snapshot.manifest_reading import read_manifest
from snapshot.mapping import map_private, opened

Aspect = Literal["dtype", "shape", "content"]


class Placed(msgspec.Struct, frozen=True):
    """A tensor and the shard that it lies in."""

    shard: Shard
    tensor: StoredTensor


DigestOf = Callable[[Placed], str]
Look = tuple[str, tuple[int, ...]]


class Changed(msgspec.Struct, frozen=True):
    """A tensor that both have under one name. `aspects`: what of it differs."""

    before: StoredTensor
    after: StoredTensor
    aspects: tuple[Aspect, ...]


class Renamed(msgspec.Struct, frozen=True):
    """A tensor that both have, under two names."""

    before: StoredTensor
    after: StoredTensor


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """From one snapshot to another.

    num_same: tensors that are the same; num_moved: those of them that lie at another place or in another file
    shared_bytes: of files that both have, so that a store holds them once
    skeleton_changed: whether the objects around the tensors differ, or how they refer to the tensors
    files: kept files that one has and the other has not, or with other content
    python, libraries: versions before and after, where they differ; None where a snapshot does not need a library
    """

    added: list[StoredTensor]
    removed: list[StoredTensor]
    renamed: list[Renamed]
    changed: list[Changed]
    num_same: int
    num_moved: int
    shared_bytes: int
    before_bytes: int
    after_bytes: int
    skeleton_changed: bool
    files: list[str]
    python: tuple[str, str] | None
    libraries: dict[str, tuple[str | None, str | None]]


def diff(before: Path, after: Path) -> Difference:
    """Compare the snapshots in two folders. Raises SnapshotNotFoundError, DamagedError."""
    sides = _Side(before), _Side(after)
    return compare((sides[0].manifest, sides[1].manifest), (sides[0].digest, sides[1].digest))


class _Side:
    """A snapshot whose tensors can be digested, its shards mapped when they are needed."""

    def __init__(self, folder: Path) -> None:
        self.manifest = read_manifest(folder)
        self._folder = folder
        self._mapped: dict[str, memoryview] = {}

    def digest(self, placed: Placed) -> str:
        shard, tensor = placed.shard, placed.tensor
        if shard.file not in self._mapped:
            path = self._folder / shard.file
            with opened(path, shard.num_bytes) as descriptor:
                self._mapped[shard.file] = map_private(descriptor, shard.num_bytes, path)
        return blake3(self._mapped[shard.file][tensor.offset : tensor.offset + tensor.num_bytes]).hexdigest()


def compare(manifests: tuple[Manifest, Manifest], digests: tuple[DigestOf, DigestOf]) -> Difference:
    """Compare two snapshots, before and after, by their manifests; `digests` digest the tensors of each."""
    before, after = manifests
    old, new = _placed(before), _placed(after)
    changed = []
    num_same = num_moved = 0
    for name in (name for name in old if name in new):
        aspects = tuple(_aspects(old[name], new[name], digests))
        if aspects:
            changed.append(Changed(old[name].tensor, new[name].tensor, aspects))
        else:
            num_same += 1
            num_moved += not _same_place(old[name], new[name])
    removed = [placed for name, placed in old.items() if name not in new]
    added = [placed for name, placed in new.items() if name not in old]
    renamed = list(_renamed(removed, added, digests))
    known = {one.before.name for one in renamed}, {one.after.name for one in renamed}
    return Difference(
        removed=[placed.tensor for placed in removed if placed.tensor.name not in known[0]],
        added=[placed.tensor for placed in added if placed.tensor.name not in known[1]],
        renamed=renamed,
        changed=changed,
        num_same=num_same,
        num_moved=num_moved,
        shared_bytes=shared_bytes(before, after),
        before_bytes=_file_bytes(before),
        after_bytes=_file_bytes(after),
        skeleton_changed=before.skeleton.digest != after.skeleton.digest,
        files=_differing({one.file: one.digest for one in before.files}, {one.file: one.digest for one in after.files}),
        python=None if before.python == after.python else (before.python, after.python),
        libraries={
            name: (before.libraries.get(name), after.libraries.get(name))
            for name in _differing(before.libraries, after.libraries)
        },
    )


def shared_bytes(one: Manifest, *others: Manifest) -> int:
    """The bytes of a snapshot's files that others have too, so that a store holds them once."""
    theirs = {record.digest for other in others for record in other.all_files}
    return sum(record.num_bytes for record in one.all_files if record.digest in theirs)


def _placed(manifest: Manifest) -> dict[str, Placed]:
    return {tensor.name: Placed(shard, tensor) for shard in manifest.shards for tensor in shard.tensors}


def _same_place(before: Placed, after: Placed) -> bool:
    return before.shard.digest == after.shard.digest and before.tensor.offset == after.tensor.offset


def _aspects(before: Placed, after: Placed, digests: tuple[DigestOf, DigestOf]) -> Iterator[Aspect]:
    if before.tensor.dtype != after.tensor.dtype:
        yield "dtype"
    if before.tensor.shape != after.tensor.shape:
        yield "shape"
    is_same_size = before.tensor.num_bytes == after.tensor.num_bytes
    if not is_same_size or not (_same_place(before, after) or digests[0](before) == digests[1](after)):
        yield "content"


def _renamed(removed: list[Placed], added: list[Placed], digests: tuple[DigestOf, DigestOf]) -> Iterator[Renamed]:
    """Pair tensors of one type, shape and content, each with one at most, in load order."""
    candidates = {_look(placed) for placed in removed} & {_look(placed) for placed in added}
    waiting: dict[tuple[Look, str], list[StoredTensor]] = {}
    for placed in removed:
        if _look(placed) in candidates:
            waiting.setdefault((_look(placed), digests[0](placed)), []).append(placed.tensor)
    for placed in added:
        if _look(placed) in candidates and (same := waiting.get((_look(placed), digests[1](placed)))):
            yield Renamed(same.pop(0), placed.tensor)


def _look(placed: Placed) -> Look:
    return placed.tensor.dtype, placed.tensor.shape


def _file_bytes(manifest: Manifest) -> int:
    return sum(record.num_bytes for record in manifest.all_files)


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
