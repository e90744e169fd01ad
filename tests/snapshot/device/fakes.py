"""A device that copies as late as it may, and fails when it is told to."""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from snapshot.device.schedule import Copy
from snapshot.errors import DeviceError, DeviceMemoryError

PAGE_BYTES = 4096


@dataclass(frozen=True, eq=False)
class Block:
    """Memory of the fake: an allocation, or a pinned buffer."""

    flat: torch.Tensor

    @property
    def memory(self) -> memoryview:
        return memoryview(self.flat.numpy())

    def part(self, begin: int, num_bytes: int) -> torch.UntypedStorage:
        return self.flat.untyped_storage()[begin : begin + num_bytes]


class Moment:
    """An event: what has to be copied before it is reached."""


class FakeDevice:
    """Its memory is the CPU's. A copy reads its buffer only when somebody waits for an event after it.

    So a buffer that is filled again before its event was waited for spoils what was in it, always, not now and then.

    on_page: whether pinned memory begins on a page
    fail: operation -> how many of its calls are good before one fails
    on_wait: called in each wait, before the copies are made
    """

    name = "cpu"

    def __init__(
        self,
        *,
        total_bytes: int = 1 << 40,
        on_page: bool = True,
        fail: dict[str, int] | None = None,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self.total_bytes = total_bytes
        self.on_page = on_page
        self.copied: list[Copy] = []
        self.num_pinned_bytes = 0
        self.calls: list[str] = []
        self._good = dict(fail or {})
        self._on_wait = on_wait
        self._issued: deque[Moment | tuple[Block, Block, Copy]] = deque()
        self._lock = threading.Lock()
        self._blocks: weakref.WeakSet[Block] = weakref.WeakSet()

    @property
    def num_blocks(self) -> int:
        """Allocations and buffers that somebody still holds."""
        return len(self._blocks)

    def free_bytes(self) -> tuple[int, int]:
        self._call("free_bytes")
        return self.total_bytes, self.total_bytes

    def allocate(self, num_bytes: int) -> Block:
        self._call("allocate")
        return self._block(num_bytes)

    def pin(self, num_bytes: int) -> Block:
        self._call("pin")
        self.num_pinned_bytes += num_bytes
        room = self._block(num_bytes + PAGE_BYTES)
        skipped = -(room.flat.data_ptr() + (not self.on_page)) % PAGE_BYTES
        self._blocks.add(pinned := Block(room.flat[skipped : skipped + num_bytes]))
        return pinned

    def copy(self, source: Any, target: Any, copy: Copy) -> None:
        self._call("copy")
        with self._lock:
            self._issued.append((source, target, copy))

    def record(self) -> Moment:
        self._call("record")
        with self._lock:
            self._issued.append(moment := Moment())
        return moment

    def wait(self, event: Any) -> None:
        self._call("wait")
        self._on_wait()
        with self._lock:
            while event in self._issued:
                self._next()

    def drain(self) -> None:
        self._call("drain")
        with self._lock:
            while self._issued:
                self._next()

    def release_pinned(self) -> None:
        self._call("release_pinned")

    def _next(self) -> None:
        issued = self._issued.popleft()
        if not isinstance(issued, Moment):
            source, target, copy = issued
            part = source.flat[copy.begin : copy.begin + copy.num_bytes]
            target.flat[copy.at : copy.at + copy.num_bytes] = part
            self.copied.append(copy)

    def _block(self, num_bytes: int) -> Block:
        block = Block(torch.full((num_bytes,), 0xEE, dtype=torch.uint8))
        self._blocks.add(block)
        return block

    def _call(self, operation: str) -> None:
        with self._lock:
            self.calls.append(operation)
            if operation not in self._good:
                return
            self._good[operation] -= 1
            if self._good[operation] >= 0:
                return
        if operation == "drain":
            self._issued.clear()  # a device that is gone copies no more
        if operation in ("allocate", "pin"):
            raise DeviceMemoryError(f"{self.name}: no memory left for {operation}", 1, 0)
        raise DeviceError(f"{self.name}: {operation} failed")


def content_of(storage: object) -> bytes:
    """The bytes of a storage that a transfer handed out."""
    assert isinstance(storage, torch.UntypedStorage)
    return bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
