"""What a transfer asks of a device."""

from typing import Protocol

from snapshot.device.schedule import Copy


class Memory(Protocol):
    """An allocation on the device."""

    def part(self, begin: int, num_bytes: int) -> object:
        """These bytes of it, as what tensors are made of; they keep the whole allocation alive."""


class Pinned(Protocol):
    """Host memory that the device reads by itself; it begins on a page."""

    @property
    def memory(self) -> memoryview:
        """All of it, writable."""


class Event(Protocol):
    """A point in the order of what was issued."""


class Device(Protocol):
    """One device, with one stream of copies of its own.

    `pin` and `wait` are called from several threads, `wait` while others call the rest.
    """

    @property
    def name(self) -> str:
        """As torch writes it, such as cuda:0."""

    def free_bytes(self) -> tuple[int, int]:
        """Bytes that this process can still allocate, and bytes of the whole device."""

    def allocate(self, num_bytes: int) -> Memory:
        """Memory whose content is not defined. Raises DeviceMemoryError."""

    def pin(self, num_bytes: int) -> Pinned:
        """Raises DeviceMemoryError when the host refuses."""

    def copy(self, source: Pinned, target: Memory, copy: Copy) -> None:
        """Issue a copy from `source` to `target`, and return."""

    def record(self) -> Event:
        """An event after all that was issued."""

    def wait(self, event: Event) -> None:
        """Block this thread until the event is reached. Raises DeviceError when the device has failed."""

    def drain(self) -> None:
        """Block until all that was issued is done; pinned memory may go afterwards. Raises DeviceError."""

    def release_pinned(self) -> None:
        """Give pinned memory that nobody uses any more back to the system. Raises DeviceError."""


def open_device(name: str) -> Device:
    """The device that torch calls `name`, such as "cuda" or "cuda:1". Raises DeviceMissingError."""
    # Local: torch, which this package is imported without.
    from snapshot.device.torch_cuda import cuda_device

    return cuda_device(name)
