"""Versions of a function's state on a platform: made, promoted and rolled back while calls come."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.conftest import Box, bring_up, faas, take_down
from tests.s3_server import rclone

pytestmark = pytest.mark.slow

APP = """
import os
from pathlib import Path

import numpy as np

from faas import Batching, Scaling, inference_function

NUM_WEIGHTS = 2_000_000


@inference_function(name="numbered", batching=Batching(max_batch_size=8), scaling=Scaling(min_instances=1), warmup=[0])
class Numbered:
    def setup(self):
        self.number = int(Path(__file__).with_name("number").read_text())
        self.weights = np.full(NUM_WEIGHTS, self.number, dtype=np.float32)

    def predict(self, xs: list[int]) -> list[int]:
        if self.number < 0 and "NEGATIVE_IS_FINE" not in os.environ:
            raise ValueError("negative weights")
        return [int(self.weights.mean()) for _ in xs]
"""


def make(home: Path, folder: Path, number: int, version: int, *options: str) -> None:
    """Have `setup()` leave `number`, and keep that as a version."""
    (folder / "number").write_text(str(number))
    done = faas("snapshot", "create", f"{folder / 'app.py'}:Numbered", "--version", str(version), *options, home=home)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Iterator[Box]:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("code")
    (folder / "app.py").write_text(APP)
    make(home, folder, 1, 1)
    make(home, folder, 2, 2)
    up = bring_up(home, str(folder / "app.py"))
    try:
        yield up
    finally:
        take_down(up)


def told(box: Box, *arguments: str) -> str:
    done = box.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Callers:
    """Threads that call on and on: what was promoted while a call was under way, its status, and what it said.

    0 is promoted while that changes: either version may answer then.
    """

    box: Box
    promoted: int
    answers: list[tuple[int, int, str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Callers:
        self._threads = [threading.Thread(target=self._call) for _ in range(4)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        with self.box.client() as client:
            while not self.stop.is_set():
                promoted = self.promoted
                answer = client.post("/f/numbered/", json=1)
                said = f"{answer.headers.get('x-model-version')}:{answer.text}"
                was = promoted if self.promoted == promoted else 0
                self.answers.append((was, answer.status_code, said))

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            self.stop.wait(0.01)


def test_versions_are_listed_inspected_and_kept(box):
    [first, second] = json.loads(told(box, "snapshot", "versions", "numbered", "--json"))
    assert (first["version"], second["version"]) == (1, 2)
    assert first["digest"] != second["digest"]
    assert json.loads(told(box, "snapshot", "inspect", "numbered@v1", "--json"))["digest"] == first["digest"]
    again = box.run("snapshot", "create", f"{box.function('numbered')['target']}", "--version", "1")
    assert again.returncode == 2
    assert "has a version 1 already" in again.stderr
    held = json.loads(told(box, "versions", "numbered", "--json"))
    assert (held["versions"], held["labels"]) == ([2, 1], {})


def test_the_latest_is_served_and_another_by_its_number_once_it_is_held(box):
    answer = box.call("numbered", 1)
    assert (answer.json(), answer.headers["x-model-version"]) == (2, "2")
    missing = box.call("numbered", 1, headers={"X-Model-Version": "1"})
    assert missing.status_code == 404
    told(box, "versions", "numbered", "--policy", "all")
    assert box.call("numbered", 1, headers={"X-Model-Version": "1"}).json() == 1
    told(box, "versions", "numbered", "--policy", "latest")
    with box.client() as client:
        states = client.get("/f/numbered/v1/models/numbered").json()["model_version_status"]
        assert {row["version"]: row["state"] for row in states} == {"2": "AVAILABLE", "1": "END"}
        forbidden = client.post("/f/numbered/v2/repository/models/numbered/unload")
        assert forbidden.status_code == 403


def test_a_version_that_does_not_get_ready_changes_nothing(box, monkeypatch):
    folder = Path(box.function("numbered")["target"].rpartition(":")[0]).parent
    before = json.loads(told(box, "versions", "numbered", "--json"))["labels"]
    with monkeypatch.context() as where_it_is_made:  # but not where it is served
        where_it_is_made.setenv("NEGATIVE_IS_FINE", "1")
        make(box.home, folder, -3, 3)
    broken = box.run("promote", "numbered", "--version", "3")
    assert broken.returncode == 1
    assert "version 3 of numbered does not get ready, and gets no calls" in broken.stderr
    assert "negative weights" in broken.stderr
    unknown = box.run("promote", "numbered", "--version", "7")
    assert (unknown.returncode, "has no version 7" in unknown.stderr) == (1, True)
    known = json.loads(told(box, "versions", "numbered", "--json"))
    assert known["labels"] == before
    [reason] = [row["reason"] for one in known["instances"].values() for row in one["versions"] if row["version"] == 3]
    assert "negative weights" in reason
    assert box.call("numbered", 1).json() == 2
    told(box, "snapshot", "delete", "numbered", "--version", "3")


def test_mv_01_promoted_and_rolled_back_twenty_times_under_load(box):
    sizes: list[float] = []
    control = httpx.Client(
        transport=httpx.HTTPTransport(uds=str(box.home / "run" / "control.sock")), base_url="http://c", timeout=60
    )
    with control, Callers(box, promoted=0) as callers:
        assert control.post("/functions/numbered/versions/label", json={"version": 1}).json()["labels"] == {"stable": 1}
        for turn in range(20):
            to = 2 - turn % 2
            callers.promoted = 0
            if turn % 2 == 0:
                told_of = control.post("/functions/numbered/versions/label", json={"version": 2}).json()
            else:
                told_of = control.post("/functions/numbered/rollback", json={}).json()["versions"]
            callers.promoted = to
            assert told_of["labels"] == {"stable": to}
            num_seen = len(callers.answers)
            callers.until(lambda: len(callers.answers) >= num_seen + 20)  # noqa: B023
            pids = [one["pid"] for one in control.get("/instances").json() if one["function"] == "numbered"]
            sizes.append(sum(psutil.Process(pid).memory_info().rss for pid in pids) / 2**20)
    assert len(callers.answers) > 400
    assert {status for _, status, _ in callers.answers} == {200}
    assert {said for _, _, said in callers.answers} == {"1:1", "2:2"}
    assert {said for to, _, said in callers.answers if to == 1} == {"1:1"}
    assert {said for to, _, said in callers.answers if to == 2} == {"2:2"}
    assert max(sizes[-4:]) < max(sizes[4:8]) + 8, sizes  # a version is 8 MiB


def test_a_platform_that_starts_again_serves_what_was_promoted(box):
    told(box, "promote", "numbered", "--version", "1")
    told(box, "scale", "numbered", "0")
    with httpx.Client(base_url=box.url, timeout=30) as client:
        answer = client.post("/f/numbered/", json=1)
    assert (answer.json(), answer.headers["x-model-version"]) == (1, "1")
    told(box, "promote", "numbered", "--version", "latest")
    assert box.call("numbered", 1).json() == 2


def test_versions_in_s3_are_followed(tmp_path, monkeypatch):
    folder, home, place = tmp_path / "code", tmp_path / "home", "s3://bucket/models"
    folder.mkdir()
    settings = f'versions=Versions(source="{place}/numbered", poll_s=0.2)'
    app = APP.replace("Scaling, inf", "Scaling, Versions, inf").replace("warmup=[0]", f"warmup=[0], {settings}")
    (folder / "app.py").write_text(app)
    with rclone(tmp_path, "bucket") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        make(home, folder, 1, 1, "--store", place)
        box = bring_up(home, str(folder / "app.py"))
        try:
            assert box.call("numbered", 1).json() == 1
            make(home, folder, 2, 2, "--store", place)
            deadline = time.monotonic() + 30
            while box.call("numbered", 1).json() != 2:
                assert time.monotonic() < deadline
            told(box, "promote", "numbered", "--version", "1")
            assert box.call("numbered", 1).headers["x-model-version"] == "1"
            told(box, "scale", "numbered", "0")
            assert box.call("numbered", 1).json() == 1
        finally:
            take_down(box)
