"""CUDA devices, through torch's public interface.

Imports torch when it is imported, so nobody imports it before a tensor has to go to such a device.
"""

from dataclasses import dataclass
from typing import Any

import torch

from snapshot.device.schedule import Copy
from snapshot.errors import DeviceError, DeviceMemoryError, DeviceMissingError


@dataclass(frozen=True, eq=False)
class CudaMemory:
    """An allocation. `flat`: all of it, as bytes."""

    flat: torch.Tensor

    def part(self, begin: int, num_bytes: int) -> torch.UntypedStorage:
        """See `Memory.part`. A storage that is a slice of another keeps that other alive."""
        return self.flat.untyped_storage()[begin : begin + num_bytes]


@dataclass(frozen=True, eq=False)
class CudaPinned:
    """Page-locked host memory. `flat`: all of it, as bytes."""

    flat: torch.Tensor

    @property
    def memory(self) -> memoryview:
        """See `Pinned.memory`."""
        return memoryview(self.flat.numpy())


class CudaDevice:
    """The device that torch calls cuda:`index`. See `Device`.

    The context is made by the first call that needs one, not before; the stream of copies is this object's own.
    """

    def __init__(self, index: int) -> None:
        self.name = f"cuda:{index}"
        self._index = index
        self._stream: torch.cuda.Stream | None = None

    def free_bytes(self) -> tuple[int, int]:
        """See `Device.free_bytes`. What torch keeps for later counts as free; its share of the device is the limit."""
        try:
            free, total = torch.cuda.mem_get_info(self._index)
            held, used = torch.cuda.memory_reserved(self._index), torch.cuda.memory_allocated(self._index)
        except RuntimeError as error:
            raise DeviceError(f"{self.name} cannot be used: {_first_line(error)}") from error
        return usable_bytes(free, total, kept=held - used, share=int(total * _fraction(self._index)) - used), total

    def allocate(self, num_bytes: int) -> CudaMemory:
        """See `Device.allocate`."""
        try:
            flat = torch.empty(num_bytes, dtype=torch.uint8, device=self.name)
            if self._stream is None:
                self._stream = torch.cuda.Stream(device=self._index)
        except torch.cuda.OutOfMemoryError as error:
            free, total = self.free_bytes()
            problem = f"{self.name}: cannot allocate {num_bytes} bytes; {free} of {total} are free to this process"
            raise DeviceMemoryError(problem, num_bytes, free) from error
        except RuntimeError as error:
            raise DeviceError(f"{self.name} cannot be used: {_first_line(error)}") from error
        # The allocator may give memory that work issued earlier on the current stream still uses.
        self._stream.wait_stream(torch.cuda.current_stream(self._index))
        return CudaMemory(flat)

    def pin(self, num_bytes: int) -> CudaPinned:
        """See `Device.pin`."""
        try:
            with torch.cuda.device(self._index):  # a new thread's is device 0, which would get a context
                return CudaPinned(torch.empty(num_bytes, dtype=torch.uint8, device="cpu", pin_memory=True))
        except RuntimeError as error:
            problem = f"cannot pin {num_bytes} bytes of host memory for {self.name}: {_first_line(error)}"
            raise DeviceMemoryError(problem, num_bytes) from error

    def copy(self, source: Any, target: Any, copy: Copy) -> None:
        """See `Device.copy`. They are what `pin` and `allocate` gave."""
        flat, pinned = target.flat, source.flat
        try:
            with torch.cuda.stream(self._stream):
                part = flat[copy.at : copy.at + copy.num_bytes]
                part.copy_(pinned[copy.begin : copy.begin + copy.num_bytes], non_blocking=True)
        except RuntimeError as error:
            raise DeviceError(f"{self.name}: a copy of {copy.num_bytes} bytes failed: {_first_line(error)}") from error

    def record(self) -> torch.cuda.Event:
        """See `Device.record`. Who waits for it sleeps, and leaves the core to the reads."""
        event = torch.cuda.Event(blocking=True)
        event.record(self._stream)
        return event

    def wait(self, event: Any) -> None:
        """See `Device.wait`."""
        try:
            event.synchronize()
        except RuntimeError as error:
            raise DeviceError(f"{self.name} failed while tensors were copied to it: {_first_line(error)}") from error

    def drain(self) -> None:
        """See `Device.drain`."""
        if self._stream is None:
            return
        try:
            self._stream.synchronize()
        except RuntimeError as error:
            raise DeviceError(f"{self.name} failed while tensors were copied to it: {_first_line(error)}") from error

    def release_pinned(self) -> None:
        """See `Device.release_pinned`. Torch before 2.11 has no way to, and keeps the memory for its own later use."""
        release = getattr(getattr(torch, "accelerator", None), "empty_host_cache", None)
        if release is None:
            return
        try:
            release()
        except RuntimeError as error:
            raise DeviceError(f"{self.name} has failed: {_first_line(error)}") from error


def cuda_device(name: str) -> CudaDevice:
    """The device that torch calls `name`: "cuda" or "cuda:1". Makes no context. Raises DeviceMissingError."""
    count = torch.cuda.device_count()
    if not count:
        why = "no CUDA device is visible here" if torch.version.cuda else "this torch is built without CUDA"
        raise DeviceMissingError(f"tensors are to be loaded to {name!r}, and {why}; thaw to device 'cpu' instead")
    index = torch.device(name).index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    if index >= count:
        raise DeviceMissingError(
            f"tensors are to be loaded to {name!r}, and the devices here are cuda:0 to cuda:{count - 1}; "
            f"thaw to device 'cuda', or make more of them visible"
        )
    return CudaDevice(index)


def usable_bytes(free: int, total: int, *, kept: int, share: int) -> int:
    """What a process can still allocate on a device of `total` bytes, `free` of which nobody has.

    kept: bytes that the process has and does not use; share: bytes that it may have beyond those it uses
    """
    return max(0, min(free + kept, share, total))


def _fraction(index: int) -> float:
    """The fraction of the device that torch was told to keep to (torch before 2.8 does not say)."""
    get = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    return 1.0 if get is None else get(index)


def _first_line(error: RuntimeError) -> str:
    """What CUDA said: the first line, without torch's advice."""
    return str(error).partition("\n")[0]
