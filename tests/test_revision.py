"""A revision in a process: loaded, thawed, called."""

import asyncio
import os
import sys

import msgspec
import pytest

import snapshot
from faas import local, revision
from faas.instance_messages import Revision
from faas.platform.forking import revision_of
from faas.prepare import prepare
from faas.revision import Loaded

APP = """
from dataclasses import asdict, dataclass, field
from enum import Enum

from faas import inference_function


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclass
class Req:
    mode: Mode
    tags: list[str] = field(default_factory=list)


@inference_function(warmup=[{"mode": "fast"}])
class Answers:
    def setup(self):
        self.usual = Req(Mode.FAST)

    def predict(self, req: Req) -> dict[str, object]:
        same = req.mode is Mode.FAST and req.mode is self.usual.mode
        return {"same": same, "kind": isinstance(self.usual, Req), "fields": asdict(req)}
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A revision of an application in a file, whose module is forgotten afterwards."""
    path = tmp_path / "modes_app.py"
    path.write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (preparation,) = asyncio.run(prepare(str(path), tmp_path / "store", progress=lambda _: None))
    assert preparation.compared
    yield Revision(
        id="r",
        target=preparation.description.target,
        function="answers",
        snapshot=preparation.snapshot,
        digest=preparation.digest,
    )
    sys.modules.pop("modes_app", None)


def ask(loaded):
    endpoint = loaded.handler.function.main
    return local.call_one(loaded.handler, endpoint, endpoint.signature.decode(b'{"mode": "fast"}'))


def test_cp_03_enums_and_dataclasses_are_themselves_with_two_loads_in_a_process(made):
    first, second = Loaded(made), Loaded(made)
    first.thaw()
    second.thaw()
    for loaded in (first, second, first):
        answer = ask(loaded)
        assert (answer["same"], answer["kind"]) == (True, True)
        assert msgspec.to_builtins(answer["fields"]) == {"mode": "fast", "tags": []}


def test_what_was_preloaded_is_found_and_anything_else_is_loaded(made, monkeypatch):
    monkeypatch.setattr(revision, "_preloaded", None)
    revision.preload(msgspec.json.encode(made))
    found = revision.load(made)
    assert found.thawed
    assert found is revision.load(made)
    other = revision.load(msgspec.structs.replace(made, id="another"))
    assert other is not found
    assert not other.thawed


@pytest.mark.parametrize(("decorated", "variable", "used"), [("read", None, "read"), ("read", "direct", "direct")])
def test_st_09_the_load_mode_is_the_decorators_unless_the_environment_says_another(
    made, monkeypatch, decorated, variable, used
):
    asked = []

    def thaw(folder, *, load, **options):
        asked.append((load, options["background"]))
        return real(folder, load=load, **options)

    real = snapshot.thaw
    monkeypatch.setattr(snapshot, "thaw", thaw)
    monkeypatch.setattr(revision, "_preloaded", None)
    monkeypatch.delenv("FAAS_SNAPSHOT_LOAD", raising=False)
    if variable:
        monkeypatch.setenv("FAAS_SNAPSHOT_LOAD", variable)
    loaded = Loaded(made)
    loaded.handler.function = loaded.handler.function.with_options(load=decorated)
    loaded.thaw()
    revision.preload(msgspec.json.encode(made))
    assert asked == [(used, True), (variable or "auto", False)]


WEIGHTS = """
import os

import torch

from faas import inference_function


@inference_function(snapshot="weights", warmup=[1.0])
class Model:
    def setup(self):
        torch.manual_seed(0)
        self.model = torch.nn.Linear(64, 64)
        self.own = torch.rand(64, generator=torch.Generator().manual_seed(os.getpid()))
        self.set_up_in = os.getpid()

    def predict(self, x: float) -> float:
        return float(self.model(torch.full((64,), x)).detach().sum())
"""


@pytest.mark.slow
def test_weights_are_held_once_though_setup_runs(tmp_path, monkeypatch):
    path = tmp_path / "weights_app.py"
    path.write_text(WEIGHTS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(revision, "_preloaded", None)
    (preparation,) = asyncio.run(prepare(str(path), tmp_path / "store", progress=lambda _: None))
    assert (preparation.reason, preparation.compared) == (None, True)
    made = revision_of(preparation)
    revision.preload(msgspec.json.encode(made))
    loaded = revision.load(made)
    try:
        assert not loaded.thawed
        loaded.handler.setup()
        user = loaded.handler.reachable()["attributes"]
        own = user["own"].clone()
        answer = local.call_one(loaded.handler, loaded.handler.function.main, {"x": 1.0})
        loaded.share_tensors()
        assert user["set_up_in"] == os.getpid()
        assert loaded.mapped_bytes == (64 * 64 + 64) * 4
        assert user["own"].equal(own)
        assert local.call_one(loaded.handler, loaded.handler.function.main, {"x": 1.0}) == answer
    finally:
        sys.modules.pop("weights_app", None)
