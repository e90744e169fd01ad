"""The tensors of a snapshot that live on devices, on their way there while the graph is rebuilt around them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from snapshot.device.device import Device, open_device
from snapshot.device.layout import Span
from snapshot.device.transfer import Source, Transfer
from snapshot.loader import Facts, Loader, LoadMode, facts_of
from snapshot.manifest import Manifest, Shard, View
from snapshot.mapping import map_private, opened

if TYPE_CHECKING:
    import torch

_ARRAYS = ("numpy", "buffer")
_Shards = list[tuple[Source, list[int]]]


class DeviceTensors:
    """The loads of one snapshot, one for each device that its tensors go to.

    shards: those that hold nothing for the CPU
    """

    def __init__(self, device: str | Device | None) -> None:
        self._device = device if device is None or isinstance(device, str) else device.name
        self._loads: dict[str, Transfer] = {}
        self._places: dict[tuple[int, str], tuple[int, int]] = {}
        self.shards: list[Shard] = []

    def device_of(self, view: View) -> str:
        """Where a view's memory goes: to the device asked for, else where it was; arrays stay on the CPU."""
        if view.form in _ARRAYS:
            return "cpu"
        return self._device or view.device or "cpu"

    def storage(self, tensor: int, device: str) -> "torch.UntypedStorage | None":
        """The memory of a stored tensor on a device, once its bytes are there; None when it is not loaded here.

        Raises as `Transfer.part` does.
        """
        place = self._places.get((tensor, device))
        return None if place is None else cast("torch.UntypedStorage", self._loads[device].part(*place))

    def beside(self, loader: Loader) -> Loader:
        """A loader of all shards: `shards` it maps, for their heads; the rest come by `loader`."""
        return _Beside(self.shards, loader)

    def wait(self) -> None:
        """Block until all bytes of all tensors are there. Raises as `Transfer.part` does."""
        for load in self._loads.values():
            load.wait()

    def begin(self, name: str, device: Device, shards: _Shards) -> Transfer:
        """Begin the load to the device called `name` of files, each with the numbers of its tensors."""
        self._loads[name] = Transfer(device, [source for source, _ in shards])
        for source, (_, tensors) in enumerate(shards):
            self._places.update(((tensor, name), (source, span)) for span, tensor in enumerate(tensors))
        return self._loads[name]


@dataclass(frozen=True)
class _Beside:
    shards: Sequence[Shard]
    loader: Loader

    def shard(self, path: Path, shard: Shard) -> memoryview:
        """See `Loader.shard`."""
        if shard not in self.shards:
            return self.loader.shard(path, shard)
        with opened(path, shard.num_bytes) as descriptor:
            return map_private(descriptor, shard.num_bytes, path)


@contextlib.contextmanager
def to_devices(
    folder: Path,
    manifest: Manifest,
    device: str | Device | None = None,
    *,
    load: LoadMode = "auto",
    opening: Callable[[str], Device] = open_device,
) -> Iterator[DeviceTensors]:
    """Load what goes to CUDA devices, or to the one given; whatever is not there when the block ends is given up.

    Tensors without bytes and those of other kinds of device are not loaded here.
    load: "direct" reads past the page cache, and so does "auto" when what is cold does not fit in memory
    Raises DeviceMissingError, and SizeMismatchError for a file that is not there or has another size.
    """
    loading = DeviceTensors(device)
    given = {} if device is None or isinstance(device, str) else {device.name: device}
    wanted: dict[str, set[int]] = {}
    for view in manifest.views:
        name = loading.device_of(view)
        is_loaded = view.form not in _ARRAYS and (name in given or name.partition(":")[0] == "cuda")
        wanted.setdefault(name if is_loaded else "", set()).add(view.tensor)
    left = wanted.pop("", set())
    loading.shards += (shard for shard, tensors in _numbered(manifest) if left.isdisjoint(tensors))
    with contextlib.ExitStack() as loads:
        for name, tensors in wanted.items():
            target = given.get(name) or opening(name)
            loads.enter_context(loading.begin(name, target, _sources(folder, manifest, tensors, load)))
        yield loading


def _numbered(manifest: Manifest) -> Iterator[tuple[Shard, range]]:
    """Each shard with the numbers of its tensors."""
    number = 0
    for shard in manifest.shards:
        yield shard, range(number, number + len(shard.tensors))
        number += len(shard.tensors)


def _sources(folder: Path, manifest: Manifest, wanted: set[int], load: LoadMode) -> _Shards:
    """The shards that hold some of the wanted tensors, and which of them."""
    chosen = []
    for shard, numbers in _numbered(manifest):
        stored = zip(numbers, shard.tensors, strict=True)
        here = {number: tensor for number, tensor in stored if number in wanted and tensor.num_bytes}
        if here:
            chosen.append((shard, here))
    direct = reads_direct(load, facts_of([folder / shard.file for shard, _ in chosen]))
    sources: _Shards = []
    for shard, here in chosen:
        spans = tuple(Span(tensor.offset, tensor.num_bytes) for tensor in here.values())
        sources.append((Source(folder / shard.file, shard.num_bytes, spans, direct), list(here)))
    return sources


def reads_direct(asked: LoadMode, facts: Facts) -> bool:
    """Whether files that are as `facts` says are read past the page cache on their way to a device."""
    return asked == "direct" or (asked == "auto" and facts.num_bytes - facts.cached_bytes > facts.available())
