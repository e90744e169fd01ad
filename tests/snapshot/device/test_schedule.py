import random
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot.device.layout import Extent, Span, lay_out
from snapshot.device.schedule import (
    BLOCK_BYTES,
    Action,
    Copy,
    Fill,
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

RINGS = st.builds(
    Ring,
    st.integers(1, 5),
    st.integers(1, 6).map(lambda n: n * BLOCK_BYTES),
    st.integers(1, 6),
    st.integers(1, 3).map(lambda n: n * BLOCK_BYTES),
)
FILES = st.lists(st.lists(st.builds(Span, st.integers(0, 300_000), st.integers(0, 40_000)), max_size=6), max_size=3)


def test_a_long_extent_spans_buffers_and_short_ones_share_one() -> None:
    ring = Ring(2, 2 * BLOCK_BYTES, 2, BLOCK_BYTES)
    fills = cut([Extent(0, 100, 3 * BLOCK_BYTES - 100, 0), Extent(1, 0, 10, 0)], ring)
    assert [len(fill.copies) for fill in fills] == [1, 2]
    assert fills[0].copies == (Copy(100, 2 * BLOCK_BYTES - 100, 0, 0),)
    assert fills[0].reads == (
        Read(0, 0, BLOCK_BYTES, BLOCK_BYTES, 0),
        Read(0, BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES),
    )
    assert [fill.arrived_bytes for fill in fills] == [2 * BLOCK_BYTES - 100, 3 * BLOCK_BYTES - 90]


@given(FILES, RINGS)
def test_every_byte_is_read_and_copied_once_in_blocks_within_the_buffer(files: list[list[Span]], ring: Ring) -> None:
    layout = lay_out(files)
    moved: list[tuple[int, int, int, int]] = []
    for fill in (fills := cut(layout.extents, ring)):
        for read in fill.reads:
            assert read.begin % BLOCK_BYTES == read.at % BLOCK_BYTES == read.num_bytes % BLOCK_BYTES == 0
            assert 0 < read.needed_bytes <= read.num_bytes <= ring.read_bytes
            assert read.at + read.num_bytes <= ring.buffer_bytes
        for copy in fill.copies:
            # Each copied byte was read to where the copy takes it from, by one read.
            covering = [read for read in fill.reads if _covers(read, copy)]
            assert sum(_overlap(read, copy) for read in covering) == copy.num_bytes
            read = covering[0]
            moved.append((copy.file, copy.at, read.begin + copy.begin - read.at, copy.num_bytes))
    expected = [(extent.file, extent.at, extent.begin, extent.num_bytes) for extent in layout.extents]
    assert _joined(moved) == [one for one in expected if one[3]]
    assert not fills or fills[-1].arrived_bytes == sum(extent.num_bytes for extent in layout.extents)


def _covers(read: Read, copy: Copy) -> bool:
    return read.file == copy.file and _overlap(read, copy) > 0


def _overlap(read: Read, copy: Copy) -> int:
    end = min(read.at + read.needed_bytes, copy.begin + copy.num_bytes)
    return max(0, end - max(read.at, copy.begin))


def _joined(moved: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    joined: list[tuple[int, int, int, int]] = []
    for file, at, begin, num_bytes in moved:
        if joined:
            before = joined[-1]
            if before[0] == file and before[1] + before[3] == at and before[2] + before[3] == begin:
                joined[-1] = (*before[:3], before[3] + num_bytes)
                continue
        joined.append((file, at, begin, num_bytes))
    return joined


class Simulation:
    """What the actions are about, and the completions that could come next."""

    def __init__(self, fills: tuple[Fill, ...], ring: Ring) -> None:
        self.fills, self.ring, self.state = fills, ring, State()
        self.pinned = 0
        self.pinning = False
        self.reading: list[StartRead] = []
        self.read: dict[int, int] = {}
        self.in_buffer: dict[int, int] = {}
        self.copying: deque[StartCopies] = deque()
        self.issued: list[int] = []

    def act(self) -> None:
        self.state, actions = advance(self.fills, self.ring, self.state)
        for action in actions:
            self.take(action)
        assert len(self.reading) <= self.ring.num_reads
        assert self.pinned + self.pinning <= self.ring.num_buffers

    def take(self, action: Action) -> None:
        match action:
            case Pin():
                assert not self.pinning
                self.pinning = True
            case StartRead(fill, buffer, read):
                assert read in self.fills[fill].reads
                assert buffer < self.pinned
                # A buffer belongs to one fill until the event after its copies is reached.
                assert self.in_buffer.setdefault(buffer, fill) == fill
                self.reading.append(action)
            case StartCopies(fill, buffer):
                assert self.in_buffer[buffer] == fill
                assert self.read[fill] == len(self.fills[fill].reads)
                self.copying.append(action)
                self.issued.append(fill)

    def complete(self, choose: random.Random) -> None:
        possible = ["pin"] * self.pinning + ["read"] * bool(self.reading) + ["copies"] * bool(self.copying)
        assert possible, "nothing is under way and the load is not done"
        match choose.choice(possible):
            case "pin":
                self.pinning = False
                self.pinned += 1
                self.state = after_pin(self.state)
            case "read":
                done = self.reading.pop(choose.randrange(len(self.reading)))
                self.read[done.fill] = self.read.get(done.fill, 0) + 1
                self.state = after_read(self.state, done.fill)
            case _:
                copies = self.copying.popleft()
                del self.in_buffer[copies.buffer]
                self.state = after_copies(self.state)


@settings(max_examples=200)
@given(FILES, RINGS, st.randoms(use_true_random=False))
def test_whatever_ends_first_nothing_is_overtaken_and_all_arrives(
    files: list[list[Span]], ring: Ring, choose: random.Random
) -> None:
    fills = cut(lay_out(files).extents, ring)
    simulation = Simulation(fills, ring)
    simulation.act()
    while simulation.state.num_copied < len(fills):
        simulation.complete(choose)
        simulation.act()
    assert simulation.issued == list(range(len(fills)))
    assert all(simulation.read[number] == len(fill.reads) for number, fill in enumerate(fills))
    assert not simulation.reading
    assert not simulation.copying


def test_a_load_of_one_buffer_pins_one() -> None:
    ring = Ring(4, 4 * BLOCK_BYTES, 8, BLOCK_BYTES)
    fills = cut([Extent(0, 0, 3 * BLOCK_BYTES, 0)], ring)
    state, actions = advance(fills, ring, State())
    assert actions == [Pin()]
    state, actions = advance(fills, ring, after_pin(state))
    assert [type(action) for action in actions] == [StartRead] * 3


def test_reads_wait_for_a_free_buffer() -> None:
    ring = Ring(1, BLOCK_BYTES, 4, BLOCK_BYTES)
    fills = cut([Extent(0, 0, 2 * BLOCK_BYTES, 0)], ring)
    state, _ = advance(fills, ring, State())
    state, actions = advance(fills, ring, after_pin(state))
    assert actions == [StartRead(0, 0, fills[0].reads[0])]
    state, actions = advance(fills, ring, after_read(state, 0))
    assert actions == [StartCopies(0, 0)]
    state, actions = advance(fills, ring, after_copies(state))
    assert actions == [StartRead(1, 0, fills[1].reads[0])]


def test_an_event_without_copies_is_refused() -> None:
    with pytest.raises(ValueError, match="no copies are on their way"):
        after_copies(State())


def test_nothing_to_move_starts_nothing() -> None:
    assert advance((), Ring(1, BLOCK_BYTES, 1, BLOCK_BYTES), State()) == (State(), [])


@pytest.mark.parametrize("num_bytes", [0, 1000, 3 << 20, 90 << 20, 200 << 20, 1 << 40])
@pytest.mark.parametrize("num_cpus", [1, 2, 16, 128])
def test_the_ring_fits_the_load(num_bytes: int, num_cpus: int) -> None:
    ring = ring_for(num_bytes, num_cpus)
    assert 1 << 20 <= ring.buffer_bytes <= 32 << 20
    assert 4 <= ring.num_reads <= 16
    assert ring.num_buffers * ring.buffer_bytes <= 192 << 20
    if num_bytes >= 128 << 20:
        assert ring.buffer_bytes == 32 << 20


@pytest.mark.parametrize("numbers", [(0, BLOCK_BYTES, 1, BLOCK_BYTES), (1, BLOCK_BYTES, 0, BLOCK_BYTES)])
def test_a_ring_of_nothing_is_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="moves nothing"):
        Ring(*numbers)


@pytest.mark.parametrize("num_bytes", [0, 100, BLOCK_BYTES + 1])
def test_buffers_and_reads_are_whole_blocks(num_bytes: int) -> None:
    with pytest.raises(ValueError, match="no multiple of 4096"):
        Ring(1, num_bytes, 1, BLOCK_BYTES)
    with pytest.raises(ValueError, match="no multiple of 4096"):
        Ring(1, BLOCK_BYTES, 1, num_bytes)
