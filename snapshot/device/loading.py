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

_Shards = list[tuple[Source, list[int]]]


class DeviceTensors:
    """The loads of one snapshot, one for each device that its tensors go to."""

    def __init__(self, device: str | Device | None) -> None:
        self._device = device if device is None or isinstance(device, str) else device.name
        self._loads: dict[str, Transfer] = {}
        self._places: dict[tuple[int, str], tuple[int, int]] = {}

    def device_of(self, view: View) -> str:
        """Where a view's memory goes: to the device asked for, else where it was; arrays stay on the CPU."""
        if view.form in ("numpy", "buffer"):
            return "cpu"
        return self._device or view.device or "cpu"

    def storage(self, tensor: int, device: str) -> "torch.UntypedStorage | None":
        """The memory of a stored tensor on a device, once its bytes are there; None when it is not loaded here.

        Raises as `Transfer.part` does.
        """
        place = self._places.get((tensor, device))
        return None if place is None else cast("torch.UntypedStorage", self._loads[device].part(*place))

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


@contextlib.contextmanager
def to_devices(
    folder: Path,
    manifest: Manifest,
    device: str | Device | None = None,
    *,
    opening: Callable[[str], Device] = open_device,
) -> Iterator[DeviceTensors]:
    """Load what goes to CUDA devices, or to the one given; whatever is not there when the block ends is given up.

    Tensors without bytes and those of other kinds of device are not loaded here.
    Raises DeviceMissingError, and SizeMismatchError for a file that is not there or has another size.
    """
    loading = DeviceTensors(device)
    given = {} if device is None or isinstance(device, str) else {device.name: device}
    wanted: dict[str, set[int]] = {}
    for view in manifest.views:
        name = loading.device_of(view)
        if view.form not in ("numpy", "buffer") and (name in given or name.partition(":")[0] == "cuda"):
            wanted.setdefault(name, set()).add(view.tensor)
    with contextlib.ExitStack() as loads:
        for name, tensors in wanted.items():
            target = given.get(name) or opening(name)
            loads.enter_context(loading.begin(name, target, _shards(folder, manifest, tensors)))
        yield loading


def _shards(folder: Path, manifest: Manifest, wanted: set[int]) -> _Shards:
    """The shards that hold some of the wanted tensors, and which of them."""
    shards: _Shards = []
    number = 0
    for shard in manifest.shards:
        here = {number + index: tensor for index, tensor in enumerate(shard.tensors)}
        number += len(here)
        chosen = {index: tensor for index, tensor in here.items() if index in wanted and tensor.num_bytes}
        if chosen:
            spans = tuple(Span(tensor.offset, tensor.num_bytes) for tensor in chosen.values())
            shards.append((Source(folder / shard.file, shard.num_bytes, spans), list(chosen)))
    return shards
