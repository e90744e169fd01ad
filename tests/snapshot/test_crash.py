"""A process is killed at every step it takes on the file system, and at any moment; what others see is whole or not
there, and the next run ends the work."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import LocalStore
from snapshot.blobs import Blobs
from snapshot.collect import collect
from tests.snapshot.killing import check_store, check_tidy, kill_at_every_step, kill_at_random_moments

STATE = {"weights": np.arange(5000.0), "more": np.ones((30, 30)), "text": "x" * 1000}
LONG_AGO = (1e9, 1e9)


@pytest.fixture(autouse=True)
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a killed process wrote the kernel has: syncing it matters to power cuts alone, and takes most of the time.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    snapshot.freeze(STATE, tmp_path / "warm")  # so that no child spends its steps on imports


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_freeze_killed_anywhere_leaves_no_half_snapshot(tmp_path: Path) -> None:
    def check(step: int) -> None:
        folder = tmp_path / f"s{step}"
        if folder.exists():
            snapshot.verify(folder)
            assert snapshot.thaw(folder).state["text"] == STATE["text"]

    steps = kill_at_every_step(lambda step: lambda: snapshot.freeze(STATE, tmp_path / f"s{step}"), check)
    assert steps > 8
    assert (tmp_path / f"s{steps}").exists()
    assert not (tmp_path / "s0").exists()


class Creating:
    """Freezes and publishes a state that shares one shard with the snapshot before it and has one of its own."""

    def __init__(self, tmp_path: Path, store: LocalStore) -> None:
        self.seen: set[bool] = set()
        self._tmp_path = tmp_path
        self._store = store
        self._old = store.publish("embed", tmp_path / "warm")

    def work(self, point: int) -> Callable[[], object]:
        self._store.publish("embed", self._tmp_path / "warm")
        return lambda: self._create(point)

    def _create(self, point: int) -> None:
        folder = self._tmp_path / f"new{point}"
        own = np.full(200_000, float(point))
        snapshot.freeze({"shared": STATE["weights"], "own": own}, folder, shard_bytes=100_000)
        self._store.publish("embed", folder)

    def check(self, point: int) -> None:
        check_store(self._store)
        is_new = self._store.find("embed") != self._old
        self.seen.add(is_new)
        shutil.rmtree(self._tmp_path / f"new{point}", ignore_errors=True)
        if is_new:
            assert snapshot.thaw(self._store.folder(self._store.find("embed"))).state["own"][0] == point
        self._create(point)
        new = self._store.find("embed")
        assert snapshot.verify(self._store.folder(new)).digest == new.digest
        shutil.rmtree(self._tmp_path / f"new{point}")
        self._store.publish("embed", self._tmp_path / "warm")
        self._store.prune("embed", keep=0)


@pytest.fixture(params=["linked", "copied"])
def creating(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Creating:
    if request.param == "copied":  # as from another file system
        monkeypatch.setattr(Blobs, "adopt", lambda *_: False)
    return Creating(tmp_path, LocalStore(tmp_path / "store"))


@pytest.mark.slow
def test_create_killed_before_any_step_leaves_the_old_latest_or_the_new(creating: Creating) -> None:
    assert kill_at_every_step(creating.work, creating.check) > 15
    assert creating.seen == {True, False}


@pytest.mark.parametrize("num_kills", [10, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_create_killed_at_random_moments_leaves_a_store_that_verifies(
    creating: Creating, store: LocalStore, num_kills: int
) -> None:
    kill_at_random_moments(creating.work, creating.check, num_kills=num_kills)
    assert False in creating.seen
    for partial in store.blobs.partials():
        os.utime(partial, LONG_AGO)
    collect(store, None)
    check_tidy(store)


class Collecting:
    """Collects snapshots of which some share a shard, what killed processes left, and blobs that nothing has."""

    def __init__(self, tmp_path: Path, store: LocalStore) -> None:
        self.seen: set[int] = set()
        self._tmp_path = tmp_path
        self._store = store

    def work(self, point: int) -> Callable[[], object]:
        for number in range(4):
            folder = self._tmp_path / f"p{number}"
            state = {"shared": STATE["weights"], "own": np.full(20_000, float(point)), "number": [point, number]}
            snapshot.freeze(state, folder, shard_bytes=100_000)
            stored = self._store.publish("ab"[number % 2], folder)
            os.utime(self._store.folder(stored), LONG_AGO)
            shutil.rmtree(folder)
        (self._store.root / "a" / ".staging-left").mkdir()
        self._store.blobs.partial.mkdir(exist_ok=True)
        partial = self._store.blobs.partial / ("ab" * 32)
        partial.write_bytes(b"part")
        os.utime(partial, LONG_AGO)
        return lambda: collect(self._store, 50_000)

    def check(self, _: int) -> None:
        check_store(self._store)
        self.seen.add(sum(len(self._store.history(name)) for name in "ab"))
        done = collect(self._store, 50_000)
        assert done.after_bytes <= 50_000
        check_store(self._store)
        check_tidy(self._store)


@pytest.fixture
def collecting(tmp_path: Path, store: LocalStore) -> Collecting:
    return Collecting(tmp_path, store)


@pytest.mark.slow
def test_collect_killed_before_any_step_leaves_whole_snapshots_and_is_ended_by_the_next(collecting: Collecting) -> None:
    assert kill_at_every_step(collecting.work, collecting.check) > 15
    assert {0, 4} < collecting.seen


@pytest.mark.parametrize("num_kills", [10, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_collect_killed_at_random_moments_leaves_a_store_that_verifies(collecting: Collecting, num_kills: int) -> None:
    kill_at_random_moments(collecting.work, collecting.check, num_kills=num_kills)


def test_prune_killed_anywhere_leaves_only_whole_snapshots(tmp_path: Path, store: LocalStore) -> None:
    def work(step: int) -> Callable[[], object]:
        store.prune("embed", keep=1)
        for number in range(2):
            snapshot.freeze([step, number], tmp_path / f"p{step}-{number}")
            store.publish("embed", tmp_path / f"p{step}-{number}")
        return lambda: store.prune("embed", keep=1)

    def check(step: int) -> None:
        assert store.find("embed").digest == snapshot.read_manifest(tmp_path / f"p{step}-1").digest
        check_store(store)

    assert kill_at_every_step(work, check) > 3
    assert len(store.history("embed")) == 1
    assert not list((store.root / "embed").glob(".staging*"))
