"""Decides what happens next while files stream through a ring of pinned buffers to a device.

Pure: the bytes to move and what has happened so far in, the next actions out.

    a buffer's life     pinned -> free -> filled by reads -> copied -> free, once the event after its copies is reached

Reads run side by side and end in any order. Copies are issued in the order of the stream, on one stream of the
device, so their events are reached in that order. A buffer is pinned when all others are busy, so that a small load
pins little and the first bytes do not wait for the whole ring.
"""

from collections.abc import Iterable, Sequence

import msgspec

from snapshot.device.layout import Extent

# Reads begin and end on multiples of this, which is what direct I/O asks of them; so do they lie in a buffer.
BLOCK_BYTES = 4096
_BUFFER_BYTES = 32 << 20
_MIN_BUFFER_BYTES = 1 << 20
_READS_PER_BUFFER = 4
_MIN_READS, _MAX_READS = 4, 16


class Ring(msgspec.Struct, frozen=True):
    """Pinned memory is at most `num_buffers` times `buffer_bytes`; `num_reads` reads of `read_bytes` run at a time."""

    num_buffers: int
    buffer_bytes: int
    num_reads: int
    read_bytes: int

    def __post_init__(self) -> None:
        if self.num_buffers < 1 or self.num_reads < 1:
            raise ValueError(f"a ring of {self.num_buffers} buffers and {self.num_reads} reads moves nothing")
        for num_bytes in (self.buffer_bytes, self.read_bytes):
            if num_bytes < BLOCK_BYTES or num_bytes % BLOCK_BYTES:
                raise ValueError(f"{num_bytes} bytes are no multiple of {BLOCK_BYTES}")


def ring_for(num_bytes: int, num_cpus: int) -> Ring:
    """The ring for a load of `num_bytes`: buffers of 32 MiB, smaller ones where they would not be filled.

    A read of a warm page cache is a copy that keeps a core busy, one of a disk wants others beside it: twice as many
    reads as cores. Buffers for all of these, one more that is being copied, and one that waits for its turn.
    """
    buffer_bytes = _BUFFER_BYTES
    while buffer_bytes > _MIN_BUFFER_BYTES and buffer_bytes * _READS_PER_BUFFER >= 2 * num_bytes:
        buffer_bytes //= 2
    num_reads = min(max(2 * num_cpus, _MIN_READS), _MAX_READS)
    return Ring(-(-num_reads // _READS_PER_BUFFER) + 2, buffer_bytes, num_reads, buffer_bytes // _READS_PER_BUFFER)


class Read(msgspec.Struct, frozen=True):
    """Bytes of file number `file` from `begin` on, to `at` in a buffer; a file may end once it gave `needed_bytes`."""

    file: int
    begin: int
    num_bytes: int
    needed_bytes: int
    at: int


class Copy(msgspec.Struct, frozen=True):
    """Bytes from `begin` on in a buffer, to `at` in the allocation of file number `file`."""

    begin: int
    num_bytes: int
    file: int
    at: int


class Fill(msgspec.Struct, frozen=True):
    """What a buffer carries at one time. `arrived_bytes`: of the stream, when its copies and all before are done."""

    reads: tuple[Read, ...]
    copies: tuple[Copy, ...]
    arrived_bytes: int


def cut(extents: Iterable[Extent], ring: Ring) -> tuple[Fill, ...]:
    """Cut the stream into what fits a buffer: long extents span several, short ones share one."""
    fills: list[Fill] = []
    reads: list[Read] = []
    copies: list[Copy] = []
    used = arrived = 0
    for extent in extents:
        begin = extent.begin
        while begin < extent.end:
            if used == ring.buffer_bytes:
                fills.append(Fill(tuple(reads), tuple(copies), arrived))
                reads, copies, used = [], [], 0
            low = begin - begin % BLOCK_BYTES
            end = min(extent.end, low + ring.buffer_bytes - used)
            reads += _reads(extent.file, (low, end), used, ring.read_bytes)
            copies.append(Copy(used + begin - low, end - begin, extent.file, extent.at + begin - extent.begin))
            used += _up(end - low)
            arrived += end - begin
            begin = end
    if reads:
        fills.append(Fill(tuple(reads), tuple(copies), arrived))
    return tuple(fills)


def _up(num_bytes: int) -> int:
    return num_bytes + -num_bytes % BLOCK_BYTES


def _reads(file: int, bounds: tuple[int, int], at: int, read_bytes: int) -> Iterable[Read]:
    low, end = bounds
    for begin in range(low, end, read_bytes):
        needed = min(end - begin, read_bytes)
        yield Read(file, begin, _up(needed), needed, at + begin - low)


class Pin(msgspec.Struct, frozen=True):
    """Make the next buffer."""


class StartRead(msgspec.Struct, frozen=True):
    """Begin a read of fill number `fill` into `buffer`."""

    fill: int
    buffer: int
    read: Read


class StartCopies(msgspec.Struct, frozen=True):
    """Issue the copies of fill number `fill`, which is whole in `buffer`, and record an event after them."""

    fill: int
    buffer: int


Action = Pin | StartRead | StartCopies


class Held(msgspec.Struct, frozen=True):
    """A buffer with a fill in it, `num_unread` of whose reads are not done."""

    buffer: int
    num_unread: int


class State(msgspec.Struct, frozen=True):
    """What has happened so far.

    num_begun, num_issued, num_copied: fills that have got a buffer, whose copies are issued, whose event is reached
    num_started: reads that were started of the fill begun last
    num_reading: reads in flight
    held: the buffers of the fills from number `num_copied` on; free: the buffers without one
    """

    num_begun: int = 0
    num_issued: int = 0
    num_copied: int = 0
    num_started: int = 0
    num_reading: int = 0
    held: tuple[Held, ...] = ()
    free: tuple[int, ...] = ()
    is_pinning: bool = False

    @property
    def num_buffers(self) -> int:
        """Buffers that are pinned or about to be."""
        return len(self.held) + len(self.free) + self.is_pinning


def after_pin(state: State) -> State:
    """The buffer asked for is there; it has the next number."""
    return _with(state, free=(*state.free, state.num_buffers - 1), is_pinning=False)


def after_read(state: State, fill: int) -> State:
    """A read of fill number `fill` is done."""
    index = fill - state.num_copied
    held = state.held[index]
    rest = Held(held.buffer, held.num_unread - 1)
    return _with(state, num_reading=state.num_reading - 1, held=(*state.held[:index], rest, *state.held[index + 1 :]))


def after_copies(state: State) -> State:
    """The event of the oldest issued fill is reached: its bytes have arrived and its buffer is free."""
    if state.num_copied == state.num_issued:
        raise ValueError("an event was reached and no copies are on their way")
    buffer = state.held[0].buffer
    return _with(state, num_copied=state.num_copied + 1, held=state.held[1:], free=(*state.free, buffer))


def advance(fills: Sequence[Fill], ring: Ring, state: State) -> tuple[State, list[Action]]:
    """All that can be started now, in the order to start it, and the state once it is started."""
    actions: list[Action] = []
    while (ready := state.num_issued - state.num_copied) < len(state.held) and not state.held[ready].num_unread:
        actions.append(StartCopies(state.num_issued, state.held[ready].buffer))
        state = _with(state, num_issued=state.num_issued + 1)
    while state.num_reading < ring.num_reads:
        if not state.num_begun or state.num_started == len(fills[state.num_begun - 1].reads):
            if state.num_begun == len(fills):
                break
            if not state.free:
                if not state.is_pinning and state.num_buffers < ring.num_buffers:
                    actions.append(Pin())
                    state = _with(state, is_pinning=True)
                break
            state = _begin(fills, state)
        fill, held = state.num_begun - 1, state.held[-1]
        actions.append(StartRead(fill, held.buffer, fills[fill].reads[state.num_started]))
        state = _with(state, num_started=state.num_started + 1, num_reading=state.num_reading + 1)
    return state, actions


def _begin(fills: Sequence[Fill], state: State) -> State:
    """Give the next fill the buffer that became free last: its memory is the likeliest to be in a processor's cache."""
    *free, buffer = state.free
    held = (*state.held, Held(buffer, len(fills[state.num_begun].reads)))
    return _with(state, num_begun=state.num_begun + 1, num_started=0, held=held, free=tuple(free))


_with = msgspec.structs.replace
