"""A revision in a process: loaded, thawed, called."""

import asyncio
import sys

import msgspec
import pytest

from faas import local, revision
from faas.prepare import prepare
from faas.revision import Loaded, Revision

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
