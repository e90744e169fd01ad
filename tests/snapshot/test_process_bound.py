import asyncio
import ctypes
import queue
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import snapshot

Roundtrip = Callable[[Any], Any]


class Counter:
    """Guards a number with a lock, as many clients do."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.number = 0

    def add(self) -> int:
        with self.changed:
            self.number += 1
            self.changed.notify_all()
            return self.number


def test_an_object_with_locks_works_as_before(roundtrip: Roundtrip) -> None:
    counter = Counter()
    counter.add()
    back = roundtrip(counter)
    assert back.add() == 2
    assert back.changed._lock is back.lock, "the condition and the object still share one lock"
    assert counter.number == 1


def test_free_locks_come_back_free(roundtrip: Roundtrip) -> None:
    one = threading.Lock()
    back = roundtrip([one, one, threading.RLock(), asyncio.Lock()])
    assert back[0] is back[1]
    assert all(lock.acquire(blocking=False) for lock in (back[0], back[2]))
    assert not back[3].locked()


def test_events_semaphores_and_barriers_are_as_they_were(roundtrip: Roundtrip) -> None:
    event, other, semaphore, barrier = (
        threading.Event(),
        threading.Event(),
        threading.Semaphore(3),
        threading.Barrier(2),
    )
    event.set()
    semaphore.acquire()
    event, other, semaphore, barrier = roundtrip([event, other, semaphore, barrier])
    assert event.wait(0)
    assert not other.is_set()
    assert [semaphore.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    assert barrier.parties == 2


@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.PriorityQueue])
def test_queues_come_back_with_their_items(roundtrip: Roundtrip, kind: type[queue.Queue[int]]) -> None:
    items = kind(maxsize=2)
    items.put(5)
    back = roundtrip(items)
    back.put_nowait(4)
    with pytest.raises(queue.Full):
        back.put_nowait(3)
    assert sorted([back.get_nowait(), back.get_nowait()]) == [4, 5]


def test_an_executor_that_never_worked_works(roundtrip: Roundtrip) -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as fresh, roundtrip(fresh) as back:
        assert back.submit(lambda: threading.current_thread().name).result(10).startswith("mine")


def test_standard_streams_are_those_of_the_process(roundtrip: Roundtrip, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/null", "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert roundtrip([sys.stdout])[0] is file


def held(lock: Any) -> Any:
    assert lock.acquire(blocking=False)
    return lock


def held_elsewhere() -> Any:
    lock = threading.RLock()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    return lock


def full(items: Any) -> Any:
    items.put(1)
    return items


def with_value() -> threading.local:
    local = threading.local()
    local.value = 1
    return local


async def held_async() -> asyncio.Lock:
    lock = asyncio.Lock()
    await lock.acquire()
    return lock


ALIVE = Counter()
BOUND: dict[str, tuple[Callable[[], Any], str]] = {
    "a held lock": (lambda: held(threading.Lock()), "it is held"),
    "a reentrant lock held here": (lambda: held(threading.RLock()), "it is held"),
    "a reentrant lock held by a thread": (held_elsewhere, "it is held"),
    "a held lock of asyncio": (lambda: asyncio.run(held_async()), "it is held"),
    "a queue whose items cannot be seen": (lambda: full(queue.SimpleQueue()), "holds 1 items"),
    "values of one thread": (with_value, "values of one thread"),
    "a thread": (threading.Thread, "is a thread"),
    "a weak reference": (lambda: weakref.ref(ALIVE), "refers weakly"),
    "a weak dictionary": (lambda: weakref.WeakValueDictionary({1: ALIVE}), "refers weakly"),
    "an outcome yet to come": (Future, "outcome of a call"),
    "a loaded library": (lambda: ctypes.CDLL(None), "is a loaded library"),
    "a generator": (lambda: (i for i in ()), "generator"),
}


def refusal(state: Any, folder: Path) -> snapshot.Unfreezable:
    with pytest.raises(snapshot.Unfreezable) as caught:
        snapshot.freeze(state, folder)
    assert not folder.exists()
    return caught.value


@pytest.mark.parametrize("which", BOUND)
def test_what_belongs_to_the_process_is_named_by_its_path(tmp_path: Path, which: str) -> None:
    make, reason = BOUND[which]
    counter = Counter()
    counter.part = {"x": [make()]}
    error = refusal({"client": counter}, tmp_path / "s")
    assert error.path == "state['client'].part['x'][0]"
    assert reason in error.reason


def test_open_files_sockets_and_children_are_named_by_their_path(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with open(path) as text, open(path, "rb") as binary, socket.socket() as client:
        assert "is an open file" in refusal([text], tmp_path / "s").reason
        assert "is an open file" in refusal([binary], tmp_path / "s").reason
        assert refusal({"c": client}, tmp_path / "s").path == "state['c']"
    temporary = TemporaryDirectory(dir=tmp_path)
    with temporary:
        assert "KeptFiles" in refusal([temporary], tmp_path / "s").reason
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        assert "is a child process" in refusal([child], tmp_path / "s").reason


def test_an_executor_with_threads_is_named(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int).result(10)
        assert "its 1 threads" in refusal([executor], tmp_path / "s").reason


def test_what_a_user_registers_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapshot.reducers._reducers", {})
    snapshot.reducer(threading.Thread)(lambda thread: (str, (thread.name,)))
    snapshot.freeze([threading.Thread(name="mine")], tmp_path / "s")
    assert snapshot.thaw(tmp_path / "s").state == ["mine"]


def test_views_of_memory_are_views_again(roundtrip: Roundtrip) -> None:
    frozen, changing, numbers = roundtrip(
        [memoryview(b"ab"), memoryview(bytearray(b"ab")), np.arange(3, dtype="f4").data]
    )
    assert (frozen.readonly, changing.readonly) == (True, False)
    changing[0] = ord("c")
    assert (frozen.tobytes(), changing.tobytes()) == (b"ab", b"cb")
    assert (numbers.format, numbers.tolist()) == ("f", [0.0, 1.0, 2.0])


def test_a_view_of_scattered_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(snapshot.Unfreezable, match="keep the array that it looks at"):
        snapshot.freeze([np.arange(4).reshape(2, 2).data], tmp_path / "s")
