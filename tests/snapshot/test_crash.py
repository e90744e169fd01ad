"""A process is killed at every step it takes on the file system; what others see is whole or not there."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import LocalStore

STATE = {"weights": np.arange(5000.0), "more": np.ones((30, 30)), "text": "x" * 1000}
WATCHED = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.chmod",
    "shutil.copyfile",
    "shutil.rmtree",
    "os.remove",
}


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that kills itself before its `step`-th step; whether it came so far."""
    child = os.fork()
    if child == 0:
        remaining = step

        def count(event: str, _: tuple[object, ...]) -> None:
            nonlocal remaining
            if event in WATCHED:
                remaining -= 1
                if remaining < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), "the child failed by itself"
    return status != 0


def steps_of(work: Callable[[int], Callable[[], object]], check: Callable[[int], None]) -> int:
    step = 0
    while killed_at(step, work(step)):
        check(step)
        step += 1
        assert step < 500
    check(step)
    return step


@pytest.fixture(autouse=True)
def warm(tmp_path: Path) -> None:
    snapshot.freeze(STATE, tmp_path / "warm")  # so that no child spends its steps on imports


def test_freeze_killed_anywhere_leaves_no_half_snapshot(tmp_path: Path) -> None:
    def check(step: int) -> None:
        folder = tmp_path / f"s{step}"
        if folder.exists():
            snapshot.verify(folder)
            assert snapshot.thaw(folder).state["text"] == STATE["text"]

    steps = steps_of(lambda step: lambda: snapshot.freeze(STATE, tmp_path / f"s{step}"), check)
    assert steps > 8
    assert (tmp_path / f"s{steps}").exists()
    assert not (tmp_path / "s0").exists()


def test_publish_killed_anywhere_leaves_the_old_latest_or_the_new(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    old = store.publish("embed", tmp_path / "warm")
    seen = set()

    def work(step: int) -> Callable[[], object]:
        snapshot.freeze(STATE | {"step": step}, tmp_path / f"new{step}")
        store.publish("embed", store.folder(old))
        return lambda: store.publish("embed", tmp_path / f"new{step}")

    def check(step: int) -> None:
        new = snapshot.read_manifest(tmp_path / f"new{step}").digest
        latest = store.find("embed")
        assert latest.digest in (old.digest, new)
        seen.add(latest.digest == new)
        for stored in store.history("embed"):
            snapshot.verify(store.folder(stored))

    assert steps_of(work, check) > 8
    assert seen == {True, False}
    store.prune("embed", keep=0)
    assert len(list((store.root / "embed").iterdir())) == 3


def test_prune_killed_anywhere_leaves_only_whole_snapshots(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")

    def work(step: int) -> Callable[[], object]:
        store.prune("embed", keep=1)
        for number in range(2):
            snapshot.freeze([step, number], tmp_path / f"p{step}-{number}")
            store.publish("embed", tmp_path / f"p{step}-{number}")
        return lambda: store.prune("embed", keep=1)

    def check(step: int) -> None:
        assert store.find("embed").digest == snapshot.read_manifest(tmp_path / f"p{step}-1").digest
        for stored in store.history("embed"):
            snapshot.verify(store.folder(stored))

    assert steps_of(work, check) > 3
    assert len(store.history("embed")) == 1
    assert not list((store.root / "embed").glob(".staging*"))
