"""Files to a device: reads into a ring of pinned buffers, copies from there, in the background.

    threads     one that decides and issues copies, some that read and pin, one that waits for events
    memory      on the device one allocation a file; on the host no more than the ring

Nothing is ever copied to a device out of a file mapping: the driver would fault it in page by page.
"""

import contextlib
import errno
import fcntl
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from snapshot.device.device import Device, Memory, Pinned
from snapshot.device.layout import Span, lay_out
from snapshot.device.schedule import (
    Action,
    Pin,
    Read,
    Ring,
    StartCopies,
    StartRead,
    State,
    advance,
    after_copies,
    after_pin,
    after_read,
    cut,
    ring_for,
)
from snapshot.errors import DeviceError, DeviceMemoryError, SizeMismatchError, SnapshotError
from snapshot.mapping import opened


@dataclass(frozen=True)
class Source:
    """A file of `num_bytes` and the tensors in it that are wanted.

    direct: read past the page cache, where the file system can, which pays for a cold file
    """

    path: Path
    num_bytes: int
    spans: tuple[Span, ...]
    direct: bool = False


class Transfer:
    """A load that is under way from the moment it is made. A context manager, which ends it, done or not.

    Whatever fails ends the load, frees all that it held, and is raised by whoever waits for a tensor.
    Raises SizeMismatchError when a file is not there or has another size.
    """

    def __init__(self, device: Device, sources: Sequence[Source], *, ring: Ring | None = None) -> None:
        self._device = device
        self._sources = sources
        self._layout = lay_out(source.spans for source in sources)
        num_bytes = sum(extent.num_bytes for extent in self._layout.extents)
        self._ring = ring or ring_for(num_bytes, len(os.sched_getaffinity(0)))
        self._fills = cut(self._layout.extents, self._ring)
        self._memories: list[Memory] = []
        self._buffers: list[Pinned] = []
        self._reports: SimpleQueue[Callable[[State], State] | BaseException] = SimpleQueue()
        self._changed = threading.Condition()
        self._arrived_bytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        with contextlib.ExitStack() as files:
            self._descriptors = [files.enter_context(_opened(source)) for source in sources]
            self._files = files.pop_all()
        self._thread = threading.Thread(target=self._run, name="snapshot-to-device")
        self._thread.start()

    def __enter__(self) -> "Transfer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def part(self, source: int, span: int) -> object:
        """The device memory of a span, once its bytes are there; other streams may use it at once.

        Raises what made the load fail: DeviceError, SizeMismatchError, SnapshotError for a file that cannot be read.
        """
        place = self._layout.places[source][span]
        self._wait_until(place.arrives_bytes)
        return self._memories[source].part(place.at, place.num_bytes)

    def wait(self) -> None:
        """Block until all bytes are there and the ring is gone. Raises as `part` does."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the load. Tensors that were handed out stay; all else is freed when it returns."""
        self._reports.put(DeviceError(f"the load to {self._device.name} was given up"))
        self._thread.join()
        self._memories.clear()

    def _wait_until(self, arrived_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or (self._arrived_bytes >= arrived_bytes and self._memories))
            if self._failure is not None:
                raise self._failure

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with self._files:
                self._allocate()
                self._stream()
        except BaseException as error:
            failure = error
            self._memories.clear()
            _forget_locals(error)
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify_all()

    def _allocate(self) -> None:
        """All device memory at the start: a load that cannot fit fails before it reads anything."""
        needed = sum(self._layout.allocations)
        free, total = self._device.free_bytes()
        if needed > free:
            raise DeviceMemoryError(
                f"{self._device.name}: the tensors take {needed} bytes, and of its {total} bytes {free} are free to "
                f"this process: end what else uses the device, or load to another",
                needed,
                free,
            )
        self._memories += [self._device.allocate(num_bytes) for num_bytes in self._layout.allocations]

    def _stream(self) -> None:
        state = State()
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._free_ring)
            readers = ThreadPoolExecutor(self._ring.num_reads + 1, "snapshot-read")  # one more, which pins
            cleanup.callback(readers.shutdown, cancel_futures=True)
            waiter = ThreadPoolExecutor(1, "snapshot-arrive")
            cleanup.callback(waiter.shutdown, cancel_futures=True)
            while state.num_copied < len(self._fills):
                state, actions = advance(self._fills, self._ring, state)
                for action in actions:
                    self._start(action, readers, waiter)
                report = self._reports.get()
                if isinstance(report, BaseException):
                    raise report
                state = report(state)
                self._tell(self._fills[state.num_copied - 1].arrived_bytes if state.num_copied else 0)

    def _start(self, action: Action, readers: ThreadPoolExecutor, waiter: ThreadPoolExecutor) -> None:
        match action:
            case Pin():
                readers.submit(self._report, self._pin, after_pin)
            case StartRead(fill, buffer, read):
                readers.submit(self._report, partial(self._read, buffer, read), partial(after_read, fill=fill))
            case StartCopies(fill, buffer):
                for copy in self._fills[fill].copies:
                    self._device.copy(self._buffers[buffer], self._memories[copy.file], copy)
                waiter.submit(self._report, partial(self._device.wait, self._device.record()), after_copies)

    def _report(self, work: Callable[[], None], then: Callable[[State], State]) -> None:
        try:
            work()
        except BaseException as error:
            self._reports.put(error)
        else:
            self._reports.put(then)

    def _pin(self) -> None:
        self._buffers.append(self._device.pin(self._ring.buffer_bytes))

    def _read(self, buffer: int, read: Read) -> None:
        source, descriptor = self._sources[read.file], self._descriptors[read.file]
        is_direct = source.direct
        done = 0
        while done < read.needed_bytes:
            part = slice(read.at + done, read.at + read.num_bytes)
            try:
                count = os.preadv(descriptor, [self._buffers[buffer].memory[part]], read.begin + done)
            except OSError as error:
                if is_direct and error.errno == errno.EINVAL:  # it wants a coarser alignment than there is
                    _set_direct(descriptor, False)
                    is_direct = False
                    continue
                raise SnapshotError(f"{source.path}: cannot be read: {error.strerror}") from error
            if not count:
                at = read.begin + done
                raise SizeMismatchError(source.path, f"was cut short while it was read, at {at} of {source.num_bytes}")
            done += count

    def _tell(self, arrived_bytes: int) -> None:
        if arrived_bytes != self._arrived_bytes:
            with self._changed:
                self._arrived_bytes = arrived_bytes
                self._changed.notify_all()

    def _free_ring(self) -> None:
        """Once no read is in flight: let the copies that were issued end, then let the memory go."""
        with contextlib.suppress(DeviceError):  # a device that has failed copies no more
            self._device.drain()
        self._buffers.clear()
        with contextlib.suppress(DeviceError):
            self._device.release_pinned()


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[int]:
    with opened(source.path, source.num_bytes) as descriptor:
        if source.direct:
            with contextlib.suppress(OSError):  # a file system that has no direct I/O reads as it can
                _set_direct(descriptor, True)
        yield descriptor


def _set_direct(descriptor: int, direct: bool) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_DIRECT
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | (os.O_DIRECT if direct else 0))


def _forget_locals(error: BaseException | None) -> None:
    """Clear the frames that an error has passed: their locals would keep device and pinned memory."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
