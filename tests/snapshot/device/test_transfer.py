import errno
import gc
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snapshot.device.layout import Span
from snapshot.device.schedule import BLOCK_BYTES, Ring
from snapshot.device.transfer import Source, Transfer
from snapshot.errors import DeviceError, DeviceMemoryError, SizeMismatchError, SnapshotError
from tests.snapshot.device.fakes import FakeDevice, content_of

RING = Ring(3, 4 * BLOCK_BYTES, 4, BLOCK_BYTES)
NUM_BYTES = 50 * BLOCK_BYTES + 123
CONTENT = random.Random(7).randbytes(NUM_BYTES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(CONTENT)
    return tmp_path / "file"


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    gc.collect()  # what earlier tests have left does not go meanwhile
    threads, descriptors = set(threading.enumerate()), os.listdir("/proc/self/fd")
    yield
    assert set(threading.enumerate()) == threads
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def whole(path: Path, num_spans: int = 1) -> Source:
    step = NUM_BYTES // num_spans // 64 * 64
    begins = [number * step for number in range(num_spans)]
    ends = [*begins[1:], NUM_BYTES]
    return Source(path, NUM_BYTES, tuple(Span(begin, end - begin) for begin, end in zip(begins, ends, strict=True)))


def test_every_tensor_arrives_as_it_lies_in_the_file(file: Path) -> None:
    device = FakeDevice()
    source = whole(file, 7)
    with Transfer(device, [source, source], ring=RING) as transfer:
        for number in (1, 0):
            for index, span in enumerate(source.spans):
                assert content_of(transfer.part(number, index)) == CONTENT[span.begin : span.end]
        transfer.wait()
    assert sum(copy.num_bytes for copy in device.copied) == 2 * NUM_BYTES
    assert [(copy.file, copy.at) for copy in device.copied] == sorted((copy.file, copy.at) for copy in device.copied)


SPANS = st.lists(st.builds(Span, st.integers(0, NUM_BYTES - 9_000), st.integers(0, 9_000)), max_size=6)
RINGS = st.builds(
    Ring,
    st.integers(1, 4),
    st.integers(1, 5).map(lambda n: n * BLOCK_BYTES),
    st.integers(1, 4),
    st.integers(1, 2).map(lambda n: n * BLOCK_BYTES),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SPANS, max_size=3), RINGS, st.booleans())
def test_whatever_the_spans_and_the_ring(file: Path, files: list[list[Span]], ring: Ring, direct: bool) -> None:
    device = FakeDevice()
    sources = [Source(file, NUM_BYTES, tuple(spans), direct) for spans in files]
    with Transfer(device, sources, ring=ring) as transfer:
        for number, source in enumerate(sources):
            for index, span in enumerate(source.spans):
                assert content_of(transfer.part(number, index)) == CONTENT[span.begin : span.end]
        transfer.wait()
    assert device.num_pinned_bytes <= ring.num_buffers * ring.buffer_bytes
    assert device.calls[-2:] == ["drain", "release_pinned"]


def test_pinned_memory_is_the_ring_and_goes_with_the_load(file: Path) -> None:
    device = FakeDevice()
    with Transfer(device, [whole(file)], ring=RING) as transfer:
        transfer.wait()
        assert device.num_pinned_bytes <= RING.num_buffers * RING.buffer_bytes
        assert device.num_blocks == 1
        part = transfer.part(0, 0)
    assert content_of(part) == CONTENT


def test_a_tensor_is_handed_out_before_later_ones_have_arrived(file: Path) -> None:
    goes_on, first_waited = threading.Event(), threading.Event()

    def hold() -> None:
        if first_waited.is_set():
            goes_on.wait()
        first_waited.set()

    device = FakeDevice(on_wait=hold)
    source = whole(file, 40)
    with Transfer(device, [source], ring=RING) as transfer:
        assert content_of(transfer.part(0, 0)) == CONTENT[: source.spans[0].end]
        assert sum(copy.num_bytes for copy in device.copied) < NUM_BYTES
        goes_on.set()
        assert content_of(transfer.part(0, 39)) == CONTENT[source.spans[39].begin :]


def test_giving_up_frees_everything(file: Path) -> None:
    given_up = threading.Event()
    under_way = threading.Event()

    def hold() -> None:
        under_way.set()
        given_up.wait()

    device = FakeDevice(on_wait=hold)
    transfer = Transfer(device, [whole(file, 3)], ring=RING)
    under_way.wait()
    closing = threading.Thread(target=transfer.close)
    closing.start()
    given_up.set()
    closing.join()
    assert device.num_blocks == 0
    with pytest.raises(DeviceError, match="the load to cpu was given up"):
        transfer.part(0, 2)
    assert device.calls[-2:] == ["drain", "release_pinned"]


def test_what_was_handed_out_outlives_a_load_that_was_given_up(file: Path) -> None:
    with Transfer(FakeDevice(), [whole(file, 40)], ring=RING) as transfer:
        part = transfer.part(0, 0)
    assert content_of(part) == CONTENT[: whole(file, 40).spans[0].end]


STEPS = [("free_bytes", 0), ("allocate", 0), ("allocate", 1), ("pin", 0), ("pin", 1)] + [
    (operation, num_good) for operation in ("copy", "record", "wait") for num_good in (0, 1, 2, 5, 20)
]


@pytest.mark.parametrize(("operation", "num_good"), STEPS)
def test_a_device_that_fails_at_any_step_ends_the_load(file: Path, operation: str, num_good: int) -> None:
    device = FakeDevice(fail={operation: num_good})
    sources = [whole(file, 3), whole(file, 3)]
    with Transfer(device, sources, ring=RING) as transfer:
        with pytest.raises(DeviceError, match=f"{operation} failed|no memory left for {operation}"):
            transfer.wait()
        assert device.num_blocks == 0
        with pytest.raises(DeviceError):
            transfer.part(1, 2)
    assert device.num_blocks == 0


def test_a_device_that_fails_while_it_is_drained_frees_all_the_same(file: Path) -> None:
    device = FakeDevice(fail={"copy": 2, "drain": 0})
    with Transfer(device, [whole(file)], ring=RING) as transfer, pytest.raises(DeviceError, match="copy failed"):
        transfer.wait()
    assert device.num_blocks == 0


def test_a_device_too_small_is_told_before_anything_is_read(file: Path) -> None:
    device = FakeDevice(total_bytes=NUM_BYTES - 1)
    with Transfer(device, [whole(file)], ring=RING) as transfer, pytest.raises(DeviceMemoryError) as raised:
        transfer.part(0, 0)
    assert (raised.value.num_bytes, raised.value.free_bytes) == (NUM_BYTES, NUM_BYTES - 1)
    assert f"cpu: the tensors take {NUM_BYTES} bytes, and of its {NUM_BYTES - 1} bytes" in str(raised.value)
    assert device.calls == ["free_bytes"]


def test_a_file_cut_short_while_it_is_read(file: Path) -> None:
    cut = threading.Event()

    def cut_short() -> None:
        if not cut.is_set():
            os.truncate(file, NUM_BYTES - 2 * BLOCK_BYTES)
        cut.set()

    device = FakeDevice(on_wait=cut_short)
    ring = Ring(1, BLOCK_BYTES, 1, BLOCK_BYTES)
    with Transfer(device, [whole(file)], ring=ring) as transfer, pytest.raises(SizeMismatchError) as raised:
        transfer.wait()
    assert str(raised.value) == f"{file}: was cut short while it was read, at {NUM_BYTES - 8192} of {NUM_BYTES}"
    assert device.num_blocks == 0


@pytest.mark.parametrize("num_bytes", [NUM_BYTES + 1, NUM_BYTES - 1])
def test_a_file_of_another_size_begins_no_load(file: Path, num_bytes: int) -> None:
    device = FakeDevice()
    with pytest.raises(SizeMismatchError, match=f"has {NUM_BYTES} bytes"):
        Transfer(device, [whole(file), Source(file, num_bytes, (Span(0, 1),))])
    assert not device.calls


def test_a_file_that_cannot_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int, buffers: object, offset: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with Transfer(FakeDevice(), [whole(file)]) as transfer, pytest.raises(SnapshotError, match="cannot be read: Input"):
        transfer.wait()


def test_direct_reads_that_the_file_system_refuses_are_made_as_others(file: Path) -> None:
    with Transfer(FakeDevice(on_page=False), [Source(file, NUM_BYTES, (Span(0, NUM_BYTES),), True)]) as transfer:
        transfer.wait()
        assert content_of(transfer.part(0, 0)) == CONTENT


@pytest.mark.parametrize("operation", ["drain", "release_pinned"])
def test_a_device_that_fails_when_all_has_arrived_has_failed_nobody(file: Path, operation: str) -> None:
    with Transfer(FakeDevice(fail={operation: 0}), [whole(file)], ring=RING) as transfer:
        transfer.wait()
        assert content_of(transfer.part(0, 0)) == CONTENT


def test_nothing_to_load(file: Path) -> None:
    with Transfer(FakeDevice(), []) as transfer:
        transfer.wait()
    with Transfer(FakeDevice(), [Source(file, NUM_BYTES, (Span(64, 0),))]) as transfer:
        assert content_of(transfer.part(0, 0)) == b""
        transfer.wait()
