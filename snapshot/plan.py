"""Decides what is written where: from the memory that tensors and arrays occupy to the tensors of the shards.

Pure: addresses and shapes in, a plan out. Memory that several of them reach is stored once, and each is a view of it;
memory that none of them reaches is not stored.

    one tensor, in C order                     stored as it is
    one tensor, another order, no gaps         stored flat, in the order of memory; its view has the strides
    one tensor with gaps (a slice)             stored compacted, in C order
    one tensor that repeats elements           the memory once, flat; its view has the strides
    several that overlap                       the memory from the lowest to the highest byte once; if one of them
                                               spans it in C order it names and shapes the stored tensor, else flat

A flat tensor has one dimension so that no other reader of the file can take it for a matrix in the wrong order.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeVar

import msgspec

from snapshot.format import FILLER_PREFIX, METADATA_KEY, Placement
from snapshot.manifest import Form, View

DEFAULT_SHARD_BYTES = 1 << 30
_MAX_ITEM_ALIGNMENT = 16
_T = TypeVar("_T")


class Source(msgspec.Struct, frozen=True):
    """A tensor or array in memory.

    stored_dtype: safetensors' name of its type, "" where it has none
    dtype: the library's own name of it
    strides: bytes from one element to the next in each dimension
    device, address: where the first element lies
    """

    form: Form
    dtype: str
    stored_dtype: str
    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    device: str = "cpu"
    requires_grad: bool = False
    read_only: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes of its elements, each counted as often as it is repeated."""
        return prod(self.shape) * self.item_bytes

    @property
    def span(self) -> tuple[int, int]:
        """Lowest address it reaches, and the first one after the highest."""
        if not self.num_bytes:
            return self.address, self.address
        reaches = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(reach for reach in reaches if reach < 0)
        return low, self.address + sum(reach for reach in reaches if reach > 0) + self.item_bytes

    @property
    def in_c_order(self) -> bool:
        """Whether its elements lie one after the other, the last dimension fastest."""
        if not self.num_bytes:
            return True
        step = self.item_bytes
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True


class Stored(msgspec.Struct, frozen=True):
    """A tensor to write.

    members: the sources that are views of it, the first of them first met
    compacted: its bytes are the first member's elements in C order; else `lead` zeros and the memory from `address`
    """

    placement: Placement
    members: tuple[int, ...]
    device: str
    address: int
    lead: int
    compacted: bool


class Plan(msgspec.Struct, frozen=True):
    """Shards, each a run of tensors in load order, and one view for each source."""

    shards: tuple[tuple[Stored, ...], ...]
    views: tuple[View, ...]


def plan(sources: Sequence[Source], names: Sequence[str], *, shard_bytes: int = DEFAULT_SHARD_BYTES) -> Plan:
    """Lay out `sources`, which were met in this order and are called `names`.

    A shard ends where the next tensor would take it past `shard_bytes`; one that is larger has a shard of its own.
    """
    unique = _distinct(names)
    stored = [_store(sources, unique, group) for group in sorted(_overlapping(sources))]
    views: dict[int, View] = {}
    for index, tensor in enumerate(stored):
        views.update((member, _view(sources[member], unique[member], tensor, index)) for member in tensor.members)
    shards = split(stored, lambda tensor: tensor.placement.num_bytes, shard_bytes=shard_bytes)
    return Plan(tuple(map(tuple, shards)), tuple(views[index] for index in range(len(sources))))


def split(tensors: Iterable[_T], num_bytes: Callable[[_T], int], *, shard_bytes: int) -> list[list[_T]]:
    """Cut a run of tensors into shards, as `plan` says."""
    shards: list[list[_T]] = []
    room = 0
    for tensor in tensors:
        if not shards or num_bytes(tensor) > room:
            shards.append([])
            room = shard_bytes
        shards[-1].append(tensor)
        room -= num_bytes(tensor)
    return shards


def _distinct(names: Iterable[str]) -> list[str]:
    taken: set[str] = set()
    last: dict[str, int] = {}  # the number that was given last, of each name that came again
    distinct = []
    for given in names:
        # Files name tensors in UTF-8, which has no half of a surrogate pair; keys of dictionaries may.
        name = given.encode(errors="backslashreplace").decode()
        base = f"_{name}" if name.startswith(FILLER_PREFIX) or name == METADATA_KEY else name
        candidate, number = base, last.get(base, 1)
        while candidate in taken:
            number += 1
            candidate = f"{base}#{number}"
        last[base] = number
        taken.add(candidate)
        distinct.append(candidate)
    return distinct


def _overlapping(sources: Sequence[Source]) -> list[tuple[int, ...]]:
    """Groups of sources whose memory overlaps, directly or through others; members in the order they were met."""
    groups = [[index] for index, source in enumerate(sources) if not source.num_bytes]
    occupied = (index for index, source in enumerate(sources) if source.num_bytes)
    device, end = "", 0
    for index in sorted(occupied, key=lambda i: (sources[i].device, sources[i].span)):
        source = sources[index]
        low, high = source.span
        if source.device == device and low < end:
            groups[-1].append(index)
            end = max(end, high)
        else:
            groups.append([index])
            device, end = source.device, high
    return [tuple(sorted(group)) for group in groups]


def _store(sources: Sequence[Source], names: Sequence[str], group: tuple[int, ...]) -> Stored:
    members = [sources[index] for index in group]
    low = min(member.span[0] for member in members)
    high = max(member.span[1] for member in members)
    first = members[0]
    if len(group) == 1 and (first.in_c_order or first.num_bytes < high - low):
        placement = _shaped(names[group[0]], first)
        return Stored(placement, group, first.device, low, lead=0, compacted=not first.in_c_order)
    if all((member.address - low) % member.item_bytes == 0 for member in members):
        for index, member in zip(group, members, strict=True):
            if member.in_c_order and member.num_bytes == high - low:
                return Stored(_shaped(names[index], member), group, member.device, low, lead=0, compacted=False)
        lead = 0
    else:
        # Torch wants each view aligned to its element: keep the alignment that the addresses have in memory.
        lead = low % _MAX_ITEM_ALIGNMENT
    return Stored(_flat(names[group[0]], members, lead + high - low), group, first.device, low, lead, compacted=False)


def _shaped(name: str, source: Source) -> Placement:
    if source.stored_dtype:
        return Placement(name, source.stored_dtype, source.shape, source.num_bytes)
    return Placement(name, "U8", (source.num_bytes,), source.num_bytes)


def _flat(name: str, members: Sequence[Source], num_bytes: int) -> Placement:
    dtypes = {member.stored_dtype for member in members}
    item_bytes = members[0].item_bytes
    if len(dtypes) == 1 and members[0].stored_dtype and num_bytes % item_bytes == 0:
        return Placement(name, members[0].stored_dtype, (num_bytes // item_bytes,), num_bytes)
    return Placement(name, "U8", (num_bytes,), num_bytes)


def _view(source: Source, name: str, stored: Stored, index: int) -> View:
    as_stored = stored.compacted or source.in_c_order
    return View(
        tensor=index,
        form=source.form,
        name=name,
        dtype=source.dtype,
        shape=source.shape,
        strides=None if as_stored else source.strides,
        start=0 if stored.compacted else stored.lead + source.address - stored.address,
        read_only=source.read_only,
        requires_grad=source.requires_grad,
        device=None if source.device == "cpu" else source.device,
    )
