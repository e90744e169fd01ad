import errno
import fcntl
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot.filesystem import Kind, cached_bytes, kind_of, kind_of_type
from snapshot.loader import Facts, FileLoader, LoadMode, Plan, decide, loader_for
from snapshot.read_ahead import ReadAhead
from snapshot.reading import DIRECT_BYTES, WholeFile

MIB = 1 << 20
MODES: list[LoadMode] = ["auto", "map", "read", "direct"]


class Counted:
    """Reads as `os.preadv` does, on a file system where every read takes a millisecond."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []

    def __call__(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        time.sleep(0.001)
        self.places.append((offset, len(buffers[0])))
        return os.preadv(descriptor, buffers, offset)


def loader(mode: str, read: Counted | None = None, *, read_ahead: bool = False) -> FileLoader:
    plan = Plan(mode, read_ahead)  # type: ignore[arg-type]
    return FileLoader(plan, ReadAhead(background=False), read or os.preadv)


def drop_from_cache(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def num_cached(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return cached_bytes(descriptor, path.stat().st_size)
    finally:
        os.close(descriptor)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    numbers = np.arange(3 * MIB + 5, dtype=np.float32)
    snapshot.freeze({"numbers": numbers, "few": np.arange(7)}, tmp_path / "s", shard_bytes=4 * MIB)
    return tmp_path / "s"


def test_st_09_a_slow_file_system_costs_few_reads(tmp_path: Path) -> None:
    tensors = {f"layer{n}": np.full(MIB, n, dtype=np.uint8) for n in range(64)}
    snapshot.freeze(tensors, tmp_path / "s")
    mapped = snapshot.thaw(tmp_path / "s", load="map").state
    for mode in ("read", "direct"):
        read = Counted()
        state = snapshot.thaw(tmp_path / "s", loader=loader(mode, read)).state
        assert 0 < len(read.places) < 100
        assert all(np.array_equal(state[name], mapped[name]) for name in tensors)


@pytest.mark.parametrize("mode", MODES)
def test_st_09_every_mode_gives_the_same_tensors_and_leaves_the_file_alone(folder: Path, mode: LoadMode) -> None:
    state = snapshot.thaw(folder, load=mode).state
    assert np.array_equal(state["numbers"], np.arange(3 * MIB + 5, dtype=np.float32))
    assert state["few"].tolist() == list(range(7))
    state["numbers"][:] = 0
    assert snapshot.thaw(folder, load=mode).state["numbers"][-1] == 3 * MIB + 4


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_file_by_every_mode(folder: Path, mode: LoadMode) -> None:
    file = snapshot.TensorFile(folder / "tensors-00001.safetensors", load=mode)
    assert any(file.array(name).size == 3 * MIB + 5 for name in file.names())


def test_a_sequential_read_goes_from_begin_to_end(folder: Path) -> None:
    read = Counted()
    path = folder / "tensors-00001.safetensors"
    content = loader("read", read).file(path, path.stat().st_size)
    assert content == path.read_bytes()
    assert read.places == sorted(read.places)
    assert min(num_bytes for _, num_bytes in read.places) >= path.stat().st_size % (8 * MIB)


def test_direct_reads_are_several_at_a_time_and_leave_nothing_in_the_cache(folder: Path) -> None:
    path = folder / "tensors-00001.safetensors"
    drop_from_cache(path)
    if num_cached(path):
        pytest.skip("this file system keeps the file in memory")
    meeting = threading.Barrier(2, timeout=30)

    def read(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        meeting.wait()
        return os.preadv(descriptor, buffers, offset)

    assert DIRECT_BYTES < path.stat().st_size <= 2 * DIRECT_BYTES
    content = FileLoader(Plan("direct"), ReadAhead(), read).file(path, path.stat().st_size)
    assert num_cached(path) == 0
    assert content == path.read_bytes()


def test_where_direct_reads_are_refused_it_reads_sequentially(folder: Path) -> None:
    refused: list[int] = []

    def read(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(offset)
            raise OSError(errno.EINVAL, "Invalid argument")
        return os.preadv(descriptor, buffers, offset)

    path = folder / "tensors-00001.safetensors"
    assert FileLoader(Plan("direct"), ReadAhead(), read).file(path, path.stat().st_size) == path.read_bytes()
    assert refused


@pytest.mark.parametrize("mode", ["read", "direct"])
def test_a_file_that_ends_early_or_cannot_be_read_is_told(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(10_000))

    def broken(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with open(path, "rb") as file:
        longer = WholeFile(file.fileno(), 20_000, path)
        with pytest.raises(snapshot.SizeMismatchError, match="ends at byte 10000 of 20000"):
            longer.sequentially() if mode == "read" else longer.directly()
        unreadable = WholeFile(file.fileno(), 10_000, path, broken)
        with pytest.raises(snapshot.DamagedError, match="Input/output error"):
            unreadable.sequentially() if mode == "read" else unreadable.directly()


def test_a_cold_file_is_read_ahead_whole(folder: Path) -> None:
    path = folder / "tensors-00001.safetensors"
    drop_from_cache(path)
    if num_cached(path):
        pytest.skip("this file system keeps the file in memory")
    chosen = loader_for([path], "auto", background=False)
    assert chosen.plan == Plan("map", read_ahead=True)
    memory = chosen.file(path, path.stat().st_size)
    assert not num_cached(path)
    chosen.read_ahead.begin()
    assert num_cached(path) == path.stat().st_size
    assert memory == path.read_bytes()
    assert not loader_for([path], "auto").plan.read_ahead


def test_reading_ahead_goes_on_in_a_thread_that_ends(folder: Path) -> None:
    paths = sorted(folder.glob("*.safetensors"))
    ahead = ReadAhead()
    for path in paths:
        ahead.add(path, path.stat().st_size)
    ahead.begin()
    for thread in threading.enumerate():
        if thread.name == "snapshot read-ahead":
            thread.join(timeout=30)
    assert not any(thread.name == "snapshot read-ahead" for thread in threading.enumerate())
    ahead.begin()  # there is nothing left
    assert not any(thread.name == "snapshot read-ahead" for thread in threading.enumerate())


def test_a_file_that_has_gone_meanwhile_keeps_no_other_from_being_read(folder: Path) -> None:
    path, *_ = sorted(folder.glob("*.safetensors"))
    size = path.stat().st_size
    ahead = ReadAhead(background=False)
    for file, num_bytes in ((folder / "gone", 5), (path, size - 1), (path, size)):
        ahead.add(file, num_bytes)
    drop_from_cache(path)
    ahead.begin()
    assert num_cached(path) == size


def test_a_process_that_is_to_fork_keeps_its_one_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise AssertionError(f"started {self.name}")

    for path in folder.glob("*.safetensors"):
        drop_from_cache(path)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert snapshot.thaw(folder, background=False).state["few"][1] == 1


GIB = 1 << 30


@pytest.mark.parametrize(
    ("asked", "kind", "sizes", "plan"),
    [
        ("auto", "local", (2, 2, 8), Plan("map")),
        ("auto", "local", (2, 0, 8), Plan("map", read_ahead=True)),
        ("auto", "local", (9, 0, 8), Plan("map")),
        ("auto", "memory", (2, 0, 8), Plan("map")),
        ("auto", "remote", (2, 0, 8), Plan("read")),
        ("auto", "remote", (5, 5, 8), Plan("read")),
        ("auto", "remote", (5, 0, 8), Plan("direct")),
        ("map", "remote", (2, 0, 8), Plan("map", read_ahead=True)),
        ("map", "local", (9, 9, 8), Plan("map")),
        ("read", "local", (8, 0, 8), Plan("read")),
        ("direct", "memory", (2, 2, 8), Plan("direct")),
    ],
)
def test_the_decision(asked: LoadMode, kind: Kind, sizes: tuple[int, int, int], plan: Plan) -> None:
    num_bytes, cached_bytes, available_bytes = (size * GIB for size in sizes)
    assert decide(asked, Facts(kind, num_bytes, cached_bytes, lambda: available_bytes)) == plan


@pytest.mark.parametrize(("asked", "kind"), [("read", "local"), ("direct", "local"), ("auto", "remote")])
def test_too_little_memory_is_told_before_with_both_sizes(asked: LoadMode, kind: Kind) -> None:
    with pytest.raises(snapshot.NotEnoughMemoryError, match=f'{9 * GIB} bytes.*{8 * GIB} are available.*load="map"'):
        decide(asked, Facts(kind, 9 * GIB, 0, lambda: 8 * GIB))


def test_kinds_of_file_systems(tmp_path: Path) -> None:
    assert kind_of(Path("/dev/shm")) == "memory"
    assert kind_of(Path("/proc")) == "local"
    assert kind_of(tmp_path / "is not there") == "local"
    assert kind_of_type(0x6969) == "remote"
    assert kind_of_type(0xFF534D42 - (1 << 32)) == "remote"
