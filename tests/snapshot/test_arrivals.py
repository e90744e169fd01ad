import threading

import pytest

from snapshot.arrivals import Arrivals
from snapshot.digests import CHUNK_BYTES
from snapshot.errors import SnapshotError

A, B = "a" * 64, "b" * 64


def test_bytes_are_counted_once_and_told_in_order() -> None:
    told: list[tuple[int, int]] = []
    arrivals = Arrivals({A: CHUNK_BYTES + 3, B: 0}, lambda done, total: told.append((done, total)))
    arrivals.mark(A, [1])
    arrivals.mark(A, [1])
    arrivals.mark(A)
    assert told == [(3, CHUNK_BYTES + 3)] * 2 + [(CHUNK_BYTES + 3, CHUNK_BYTES + 3)]
    arrivals.wait_all()


def test_a_range_is_waited_for_and_no_more() -> None:
    arrivals = Arrivals({A: 3 * CHUNK_BYTES})
    arrivals.mark(A, [1])
    arrivals.wait(A, CHUNK_BYTES, 2 * CHUNK_BYTES)
    arrivals.wait(A, 5, 5)
    assert arrivals.missing(A) == [0, 2]
    reached = threading.Event()
    waiting = threading.Thread(target=lambda: (arrivals.wait(A, CHUNK_BYTES, 2 * CHUNK_BYTES + 1), reached.set()))
    waiting.start()
    assert not reached.is_set()
    arrivals.mark(A, [2])
    waiting.join(30)
    assert reached.is_set()


def test_a_head_can_be_used_before_its_chunk_is_here() -> None:
    arrivals = Arrivals({A: 2 * CHUNK_BYTES})
    arrivals.mark_head(A, 100)
    arrivals.wait(A, 0, 100)
    assert arrivals.missing(A) == [0, 1]
    assert arrivals.arrived_bytes == 0
    arrivals.fail(SnapshotError("the server"))
    with pytest.raises(SnapshotError, match="the server"):
        arrivals.wait(A, 0, 101)


def test_a_failure_reaches_who_waits_for_what_is_missing() -> None:
    arrivals = Arrivals({A: 2 * CHUNK_BYTES})
    arrivals.mark(A, [0])
    arrivals.fail(SnapshotError("first"))
    arrivals.fail(SnapshotError("second"))
    arrivals.wait(A, 0, CHUNK_BYTES)
    for wait in (lambda: arrivals.wait_file(A), arrivals.wait_all, arrivals.check):
        with pytest.raises(SnapshotError, match="first"):
            wait()


def test_all_that_arrived_does_not_hide_a_failure() -> None:
    arrivals = Arrivals({A: 1})
    arrivals.mark(A)
    arrivals.fail(SnapshotError("the disk"))
    with pytest.raises(SnapshotError, match="the disk"):
        arrivals.wait_all()
