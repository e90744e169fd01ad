"""The tensors of a snapshot that live on devices, on their way there while the graph is rebuilt around them."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from snapshot.device.device import Device, open_device
from snapshot.device.layout import Span
from snapshot.device.transfer import Source, Transfer
from snapshot.manifest import Manifest, View

if TYPE_CHECKING:
    import torch


def device_of(view: View, device: str | None) -> str:
    """Where a view's memory goes: to `device` when one is given, else where it was; arrays stay on the CPU."""
    if view.form in ("numpy", "buffer"):
        return "cpu"
    return device or view.device or "cpu"


class DeviceTensors:
    """The loads of one snapshot, one for each device that its tensors go to."""

    def __init__(self) -> None:
        self._loads: dict[str, Transfer] = {}
        self._places: dict[tuple[int, str], tuple[int, int]] = {}

    def __contains__(self, place: tuple[int, str]) -> bool:
        return place in self._places

    def storage(self, tensor: int, device: str) -> "torch.UntypedStorage":
        """The memory of a stored tensor on a device, once its bytes are there. Raises as `Transfer.part` does."""
        return cast("torch.UntypedStorage", self._loads[device].part(*self._places[tensor, device]))

    def wait(self) -> None:
        """Block until all bytes of all tensors are there. Raises as `Transfer.part` does."""
        for load in self._loads.values():
            load.wait()

    def begin(self, name: str, device: Device, wanted: list[tuple[Source, list[int]]]) -> Transfer:
        """Begin the load to the device called `name` of files, each with the numbers of its tensors."""
        self._loads[name] = Transfer(device, [source for source, _ in wanted])
        for source, (_, tensors) in enumerate(wanted):
            self._places.update(((tensor, name), (source, span)) for span, tensor in enumerate(tensors))
        return self._loads[name]


@contextlib.contextmanager
def to_devices(
    folder: Path, manifest: Manifest, device: str | None, *, opening: Callable[[str], Device] = open_device
) -> Iterator[DeviceTensors]:
    """Load what goes to CUDA devices; whatever is not there when the block ends is given up.

    Tensors without bytes and those of other kinds of device are not in it.
    Raises DeviceMissingError, and SizeMismatchError for a file that is not there or has another size.
    """
    loading = DeviceTensors()
    with contextlib.ExitStack() as loads:
        for name, wanted in _wanted(manifest, device).items():
            loads.enter_context(loading.begin(name, opening(name), _sources(folder, manifest, wanted)))
        yield loading


def _wanted(manifest: Manifest, device: str | None) -> dict[str, set[int]]:
    """The stored tensors that go to each CUDA device."""
    wanted: dict[str, set[int]] = {}
    for view in manifest.views:
        name = device_of(view, device)
        if name.partition(":")[0] == "cuda":
            wanted.setdefault(name, set()).add(view.tensor)
    return wanted


def _sources(folder: Path, manifest: Manifest, wanted: set[int]) -> list[tuple[Source, list[int]]]:
    """The shards that hold some of the wanted tensors, and which of them."""
    sources: list[tuple[Source, list[int]]] = []
    number = 0
    for shard in manifest.shards:
        here = {number + index: tensor for index, tensor in enumerate(shard.tensors)}
        number += len(here)
        chosen = {index: tensor for index, tensor in here.items() if index in wanted and tensor.num_bytes}
        if chosen:
            spans = tuple(Span(tensor.offset, tensor.num_bytes) for tensor in chosen.values())
            sources.append((Source(folder / shard.file, shard.num_bytes, spans), list(chosen)))
    return sources
