"""The commands about versions: what they ask a platform, what they write in a store, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.responses import JSONResponse, Response

import snapshot
from faas.engine.versions import plan
from snapshot import LocalStore
from tests.cli.conftest import Faas
from tests.cli.platform import controlled, refusal
from tests.served import Seen

KNOWN: dict[str, Any] = {
    "name": "iris",
    "source": "/store/iris/versions",
    "versions": [2, 1],
    "labels": {"stable": 2},
    "before": [None, 1],
    "settings": {},
    "instances": {
        "iris-1": {
            "default": 2,
            "versions": [
                {"version": 2, "state": "AVAILABLE", "step": "ready", "reason": None},
                {"version": 1, "state": "END", "step": "error", "reason": "ValueError: no weights"},
            ],
        }
    },
}

APP = """
from faas import inference_function

@inference_function
class Counts:
    def setup(self):
        self.number = 7

    def predict(self, x: int) -> int:
        return self.number + x

@inference_function
class Binds:
    def setup(self):
        global NUMBER
        NUMBER = 7

    def predict(self, x: int) -> int:
        return NUMBER + x
"""


def asked(home: Path, faas: Faas, value: Any, *arguments: str) -> tuple[Any, list[Seen]]:
    async def answer(_: Seen) -> Response:
        return value if isinstance(value, Response) else JSONResponse(value)

    (home.parent / "c").unlink(missing_ok=True)  # the socket of the call before
    with controlled(home, answer) as served:
        return faas(*arguments), served.seen


def test_promote_a_version(home: Path, faas: Faas):
    done, [seen] = asked(home, faas, KNOWN, "promote", "Iris", "--version", "2")
    assert (done.code, done.out) == (0, "iris: stable 2\n")
    assert (seen.method, seen.path) == ("POST", "/functions/iris/versions/label")
    assert json.loads(seen.body) == {"label": "stable", "version": 2}


def test_promote_to_another_label_or_to_the_latest(home: Path, faas: Faas):
    _, [seen] = asked(home, faas, KNOWN, "promote", "iris", "--version", "v3", "--label", "canary")
    assert json.loads(seen.body) == {"label": "canary", "version": 3}
    done, [seen] = asked(home, faas, KNOWN | {"labels": {}}, "promote", "iris", "--version", "latest")
    assert json.loads(seen.body) == {"label": "stable", "version": None}
    assert done.out == "iris: the latest version\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("promote", "iris", "cfc9", "--version", "2"), "a revision and --version: give one of them"),
        (("promote", "iris", "--version", "new"), "'new' is no version: write a number, or latest"),
    ],
)
def test_a_call_that_is_wrong(faas: Faas, arguments: tuple[str, ...], said: str):
    done = faas(*arguments)
    assert (done.code, said in done.err) == (2, True)


def test_a_promotion_that_is_refused(home: Path, faas: Faas):
    done, _ = asked(
        home, faas, refusal(409, "version 3 of iris does not get ready"), "promote", "iris", "--version", "3"
    )
    assert (done.code, "does not get ready" in done.err) == (1, True)


def test_rollback_says_what_it_went_back_to(home: Path, faas: Faas):
    found = {"name": "iris", "traffic": {"cfc9": 100}}
    done, [seen] = asked(home, faas, found | {"versions": KNOWN}, "rollback", "iris")
    assert (done.out, json.loads(seen.body)) == ("iris: stable 2\n", {"to": None})
    done, [seen] = asked(home, faas, found, "rollback", "iris", "--to", "cfc9")
    assert (done.out, json.loads(seen.body)) == ("iris: cfc9 100%\n", {"to": "cfc9"})


def test_versions_are_shown(home: Path, faas: Faas):
    done, [seen] = asked(home, faas, KNOWN, "versions", "iris")
    assert (seen.method, seen.path) == ("GET", "/functions/iris/versions")
    header, first, second = done.out.splitlines()
    assert header.split() == ["VERSION", "LABELS", "DEFAULT", "READY", "STATE", "REASON"]
    assert first.split() == ["2", "stable", "1", "of", "1", "1/1", "ready", "-"]
    assert second.split() == ["1", "-", "-", "0/1", "error", "ValueError:", "no", "weights"]
    done, _ = asked(home, faas, KNOWN, "versions", "iris", "--json")
    assert json.loads(done.out) == KNOWN


def test_versions_are_set(home: Path, faas: Faas):
    _, [seen] = asked(home, faas, KNOWN, "versions", "iris", "--policy", "latest", "--num", "2", "--mode", "explicit")
    assert (seen.method, seen.path) == ("POST", "/functions/iris/versions/settings")
    assert json.loads(seen.body) == {"policy": "latest", "num": 2, "mode": "explicit"}
    _, [seen] = asked(home, faas, KNOWN, "versions", "iris", "--specific", "1,3")
    assert json.loads(seen.body) == {"policy": "specific", "versions": [1, 3]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "specific"], "--specific N,N"),
        (["--policy", "latest", "--specific", "1"], "--policy latest holds no versions by their numbers"),
        (["--specific", "1,latest"], "--specific 1,latest: name numbers"),
    ],
)
def test_the_policy_specific_is_to_name_versions(faas: Faas, arguments: list[str], words: str):
    done = faas("versions", "iris", *arguments)
    assert (done.code, words in done.err) == (2, True), done.err


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A store with two versions of `iris`, and a third snapshot."""
    made = LocalStore(tmp_path / "home" / "snapshots")
    for number in (1, 2, 3):
        snapshot.freeze({"weights": np.full(10, number)}, tmp_path / str(number))
        stored = made.publish("iris", tmp_path / str(number))
        if number < 3:
            made.number("iris", number, stored.digest)
    return made


def test_a_label_can_be_written_in_a_store_without_a_platform(store: LocalStore, faas: Faas):
    done = faas("promote", "iris", "--version", "1", "--store", str(store.root))
    assert (done.code, done.out) == (0, "iris: stable 1\n")
    file = store.root / "iris" / "versions" / "versions.json"
    assert plan.read(file.read_bytes()).labels == {"stable": 1}
    done = faas("promote", "iris", "--version", "9", "--store", str(store.root))
    assert (done.code, "has no version 9; it has: 1, 2" in done.err) == (1, True)


def test_versions_of_a_store_are_listed_inspected_and_deleted(store: LocalStore, faas: Faas):
    faas("promote", "iris", "--version", "2", "--store", str(store.root))
    [first, second] = json.loads(faas("snapshot", "versions", "iris", "--json").out)
    assert (first["version"], first["labels"], second["version"], second["labels"]) == (1, [], 2, ["stable"])
    assert faas("snapshot", "versions", "iris").out.splitlines()[2].split()[:2] == ["2", "stable"]
    assert json.loads(faas("snapshot", "inspect", "iris@v1", "--json").out)["digest"] == first["digest"]
    assert faas("snapshot", "verify", "iris@v2").code == 0
    done = faas("snapshot", "inspect", "iris@v9")
    assert (done.code, "iris has no version 9; it has: 1, 2" in done.err) == (2, True)
    done = faas("snapshot", "delete", "iris", "--version", "2")
    assert (done.code, "the label stable leads to version 2" in done.err) == (2, True)
    done = faas("snapshot", "delete", "iris", "--version", "1")
    assert (done.code, done.out) == (0, "iris: version 1 is deleted\n")
    assert sorted(store.versions("iris")) == [2]
    done = faas("snapshot", "delete", "iris", "--version", "1")
    assert (done.code, "iris has no version 1" in done.err) == (2, True)
    done = faas("snapshot", "delete", "iris", "--version", "latest")
    assert (done.code, "write the number" in done.err) == (2, True)
    assert "has no versions" in faas("snapshot", "versions", "rose").out


@pytest.mark.slow
def test_versions_are_created(folder: Path, home: Path, faas: Faas):
    (folder / "counts_app.py").write_text(APP)
    done = faas("snapshot", "create", "counts_app.py:Counts", "--version", "4")
    assert done.code == 0, done.err
    store = LocalStore(home / "snapshots")
    assert sorted(store.versions("counts")) == [4]
    done = faas("snapshot", "create", "counts_app.py:Counts", "--version", "4")
    assert (done.code, "counts has a version 4 already" in done.err) == (2, True)
    assert "faas snapshot delete counts --version 4" in done.err
    assert "setting up" not in done.err
    done = faas("snapshot", "create", "counts_app.py:Binds", "--version", "1")
    assert (done.code, "binds globals, of which a process has one for all versions" in done.err) == (1, True)
    assert "counts_app.NUMBER" in done.err
    done = faas("snapshot", "create", "counts_app.py", "--version", "5")
    assert (done.code, "has several functions: binds, counts" in done.err) == (2, True)
