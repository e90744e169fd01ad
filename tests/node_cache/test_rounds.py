"""Rounds of a node cache against a real S3 server and a stand-in for the API server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import snapshot
from deploy import node_cache
from deploy.knative import nodes
from deploy.knative.rest import Rest
from faas.node_cache.rounds import Rounds
from faas.node_cache.running import app
from snapshot import LocalStore, SnapshotNotFoundError, StoredSnapshot
from snapshot.pins import Pins
from snapshot.s3_store import S3Store
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.knative.conftest import api, rest  # noqa: F401 (fixtures)
from tests.s3_server import S3Server, rclone

STORE = "s3://bucket/prod"
STATE_BYTES = 800_000
MANY_BYTES = 100 * STATE_BYTES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone(tmp_path_factory.mktemp("rclone")) as running:
        yield running


@pytest.fixture
def place(server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A store of the test's own."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"{STORE}/{abs(hash(request.node.name))}"


Push = Callable[..., StoredSnapshot]


@pytest.fixture
def push(place: str, tmp_path: Path) -> Push:
    """Puts a snapshot of some size into the store, and pins it."""

    def run(name: str, value: float, *, pinned: bool = True) -> StoredSnapshot:
        folder = tmp_path / f"made-{name}-{value}"
        snapshot.freeze({"weights": np.full(STATE_BYTES // 8, value)}, folder)
        stored = S3Store(place).publish(name, folder)
        if pinned:
            Pins(place).pin(name, stored.digest)
        return stored

    return run


class Node:
    """A node's cache, and what it says."""

    def __init__(self, place: str, folder: Path, budget_bytes: int = MANY_BYTES) -> None:
        self.said: list[str] = []
        self.told: list[list[str]] = []
        self.store = LocalStore(folder)
        self.tell: Callable[[Collection[str]], object] = lambda held: self.told.append(sorted(held))
        self.rounds = Rounds(place, self.store, budget_bytes, tell=lambda held: self.tell(held), say=self.said.append)

    def holds(self) -> list[str]:
        return [f"{name}@{one.short_digest}" for name in self.store.names() for one in self.store.history(name)]

    def metrics(self) -> dict[str, float]:
        text = self.rounds.counts.expose().decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name.removeprefix("faas_node_cache_"): float(value) for name, value in lines}

    def grow_old(self) -> None:
        """Have all that it holds been used a day ago, the first by name the longest ago."""
        for number, name in enumerate(self.store.names()):
            for one in self.store.history(name):
                os.utime(self.store.folder(one), times=(0, time.time() - 86400.0 + number))


def named(*stored: StoredSnapshot) -> list[str]:
    return [f"{one.name}@{one.short_digest}" for one in stored]


def test_what_is_pinned_is_fetched_once_and_told(place: str, push: Push, tmp_path: Path) -> None:
    node = Node(place, tmp_path / "node")
    first, other = push("first", 1), push("other", 2, pinned=False)
    node.rounds.once()
    node.rounds.once()
    assert node.holds() == named(first)
    assert node.told == [[first.short_digest]] * 2
    numbers = node.metrics()
    assert (numbers["pulls_total"], numbers["failures_total"], numbers["snapshots"]) == (1, 0, 1)
    assert STATE_BYTES < numbers["pulled_bytes_total"] == pytest.approx(numbers["bytes"], rel=0.01)
    assert numbers['pins{state="ready"}'] == 1
    assert snapshot.thaw(node.store.folder(first)).state["weights"][0] == 1.0
    Pins(place).pin("other", other.digest)
    node.rounds.once()
    assert node.holds() == named(first, other)


def test_a_new_pin_of_a_name_takes_the_place_of_the_old(place: str, push: Push, tmp_path: Path) -> None:
    node = Node(place, tmp_path / "node", int(1.5 * STATE_BYTES))
    push("model", 1)
    node.rounds.once()
    node.grow_old()
    second = push("model", 2)
    node.rounds.once()
    assert node.holds() == named(second), "there was room for one, and the old one is pinned no more"


def test_what_is_not_pinned_any_more_goes_only_for_others_the_longest_unused_first(
    place: str, push: Push, tmp_path: Path
) -> None:
    node = Node(place, tmp_path / "node", int(2.5 * STATE_BYTES))
    push("a", 1)
    b = push("b", 2)
    node.rounds.once()
    for name in ("a", "b"):
        Pins(place).unpin(name)
    node.rounds.once()
    assert len(node.holds()) == 2
    node.grow_old()
    c = push("c", 3)
    node.rounds.once()
    assert node.holds() == named(b, c)
    assert node.metrics()["evicted_total"] == 1
    assert any(text.startswith("a@") and text.endswith("has gone") for text in node.said)


def test_what_is_mapped_stays_beyond_the_budget_and_counts_as_used(place: str, push: Push, tmp_path: Path) -> None:
    node = Node(place, tmp_path / "node", int(1.5 * STATE_BYTES))
    a = push("a", 1)
    node.rounds.once()
    held = snapshot.thaw(node.store.folder(a))
    Pins(place).unpin("a")
    node.grow_old()
    b = push("b", 2)
    node.rounds.once()
    assert node.holds() == named(a, b)
    assert time.time() - node.store.folder(a).stat().st_mtime < 3600
    assert held.state["weights"][0] == 1.0
    del held
    node.grow_old()
    node.rounds.once()
    assert node.holds() == named(b)


def test_pins_that_do_not_fit_drive_none_out_and_are_named_once(place: str, push: Push, tmp_path: Path) -> None:
    node = Node(place, tmp_path / "node", int(1.5 * STATE_BYTES))
    b = push("b", 1)
    node.rounds.once()
    node.grow_old()
    push("a", 2)
    for _ in range(2):
        node.rounds.once()
    assert node.holds() == named(b)
    assert sum("there is no room for it" in text for text in node.said) == 1
    numbers = node.metrics()
    assert (numbers['pins{state="ready"}'], numbers['pins{state="too_large"}'], numbers["failures_total"]) == (1, 1, 2)


def test_one_pin_that_leads_nowhere_keeps_no_other_from_being_fetched(place: str, push: Push, tmp_path: Path) -> None:
    node = Node(place, tmp_path / "node")
    Pins(place).pin("absent", "0" * 64)
    good = push("good", 1)
    node.rounds.once()
    assert node.holds() == named(good)
    assert node.metrics()['pins{state="missing"}'] == 1
    assert "absent is pinned, and cannot be had" in node.said[0]


def test_a_store_that_does_not_answer_is_said_and_tried_again(
    place: str, push: Push, tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, good = Node(place, tmp_path / "node"), push("good", 1)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        cut = Node(place, tmp_path / "node")
        with TestClient(app(cut.rounds)) as client:
            cut.rounds.once()
            assert "the pins cannot be read" in cut.said[0]
            assert (client.get("/readyz").status_code, client.get("/livez").status_code) == (503, 200)
            assert "faas_node_cache_failures_total 1.0" in client.get("/metrics").text
    node.rounds.once()
    assert node.holds() == named(good)
    with TestClient(app(node.rounds)) as client:
        assert client.get("/readyz").status_code == 200


def test_pins_are_one_object_each(place: str) -> None:
    pins = Pins(place)
    pins.pin("a", "1" * 64)
    pins.pin("b", "2" * 64)
    assert pins.read() == {"a": "1" * 64, "b": "2" * 64}
    Pins(place).pin("a", "3" * 64)
    assert pins.read() == {"a": "3" * 64, "b": "2" * 64}
    pins.unpin("b")
    assert pins.read() == {"a": "3" * 64}
    with pytest.raises(SnapshotNotFoundError):
        pins.unpin("b")
    pins.pin("a", "no digest")
    assert pins.read() == {}
    assert S3Store(place).names() == []


def test_labels_say_what_a_node_holds(api: ApiServer, rest: Rest, place: str, push: Push, tmp_path: Path) -> None:  # noqa: F811
    before = {"zone": "a", node_cache.label("0" * 16): "ready"}
    api.do(lambda state: state.store.put("nodes", {"metadata": {"name": "n1", "labels": before}, "spec": {}}))
    node, model = Node(place, tmp_path / "node"), push("model", 1)
    node.tell = lambda held: nodes.label(
        rest, "n1", node_cache.LABEL_PREFIX, {node_cache.label(one): node_cache.READY for one in held}
    )
    node.rounds.once()
    node.rounds.once()
    live = api.do(lambda state: state.store.get("nodes", "", "n1"))
    assert live["metadata"]["labels"] == {"zone": "a", node_cache.label(model.short_digest): "ready"}
    assert len(api.called("patch", "nodes")) == 1
    assert api.state.used == {("get", "nodes"), ("patch", "nodes")}, "what the documents ask for"
