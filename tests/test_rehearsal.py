"""Example inputs that a zygote answers for its instances."""

import asyncio
import os
import socket
import sys
import threading

import msgspec
import pytest

from faas import Calls, Resources, inference_function, rehearsal, revision
from faas.handler import Handler
from faas.instance_messages import Revision
from faas.prepare import prepare
from faas.rehearsal import Footprint

APP = """
import socket

from tqdm import tqdm

from faas import inference_function


@inference_function(warmup=[1, 2])
class Counts:
    def setup(self):
        self.seen = []

    def predict(self, x: int) -> int:
        self.seen.append(x)
        return len(self.seen)


@inference_function(warmup=[1])
class Connects:
    def setup(self):
        self.open = {}

    def predict(self, x: int) -> int:
        if "it" not in self.open:
            self.open["it"] = socket.socket()
        return x


@inference_function(warmup=[1])
def shows(x: int) -> int:
    return sum(tqdm(range(x)))
"""


@inference_function(warmup=[1])
def plain(x: int) -> int:
    return x


@inference_function
def without_examples(x: int) -> int:
    return x


@inference_function(warmup=[1])
async def on_the_loop(x: int) -> int:
    return x


@inference_function(warmup=[1], resources=Resources(gpu="L4"))
def on_a_gpu(x: int) -> int:
    return x


@inference_function(warmup=[1])
class MakesAfresh:
    def after_thaw(self) -> None:
        self.pid = os.getpid()

    def predict(self, x: int) -> int:
        return x


@inference_function(warmup=[1], calls=Calls(timeout_s=5))
def fails(x: int) -> int:
    raise ValueError("not today")


def test_what_a_zygote_may_answer():
    assert rehearsal.is_offered(plain)
    assert not any(map(rehearsal.is_offered, (without_examples, on_the_loop, on_a_gpu, MakesAfresh)))


def test_threads_and_descriptors_are_a_footprint():
    before = Footprint.here()
    assert Footprint.here() == before
    with socket.socket():
        assert Footprint.here() != before
    assert Footprint.here() == before
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    assert Footprint.here() != before
    leave.set()
    thread.join()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The preparations of an application in a file, by name; its module is forgotten afterwards."""
    path = tmp_path / "rehearsed_app.py"
    path.write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield {p.name: p for p in asyncio.run(prepare(str(path), tmp_path / "store", progress=lambda _: None))}
    sys.modules.pop("rehearsed_app", None)


def preloaded(preparation, monkeypatch):
    monkeypatch.setattr(revision, "_preloaded", None)
    wanted = Revision(
        id="r",
        target=preparation.description.target,
        function=preparation.name,
        snapshot=preparation.snapshot,
        digest=preparation.digest,
        rehearse=preparation.rehearsable,
    )
    revision.preload(msgspec.json.encode(wanted))
    return revision.load(wanted)


@pytest.mark.slow
def test_a_preload_answers_the_examples_where_that_leaves_nothing_but_memory(made, monkeypatch):
    assert made["counts"].rehearsable
    loaded = preloaded(made["counts"], monkeypatch)
    assert loaded.rehearsed
    assert loaded.handler._object.seen == [1, 2]
    assert loaded.server.runtime.state == "starting"


@pytest.mark.slow
def test_an_answer_whose_progress_is_shown_leaves_no_thread(made, monkeypatch):
    assert made["shows"].rehearsable
    assert preloaded(made["shows"], monkeypatch).rehearsed
    assert [thread.name for thread in threading.enumerate() if thread.name == "tqdm_monitor"] == []


@pytest.mark.slow
def test_an_answer_that_keeps_a_connection_is_left_to_each_instance(made, monkeypatch):
    assert made["connects"].snapshot is not None
    assert not made["connects"].rehearsable
    loaded = preloaded(made["connects"], monkeypatch)
    assert (loaded.thawed, loaded.rehearsed) == (True, False)
    assert loaded.handler._object.open == {}


@pytest.mark.slow
def test_an_example_that_fails_is_left_to_each_instance(made, caplog):
    loaded = revision.Loaded(Revision(id="r", target=made["counts"].description.target, function="counts"))
    loaded.handler = Handler(fails)
    loaded.rehearse()
    assert not loaded.rehearsed
    assert "not today" in caplog.text
