"""The commands that look at the snapshots of a store side by side: gc, diff, inspect."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import snapshot
from snapshot import LocalStore, StoredSnapshot
from tests.cli.conftest import Faas

WEIGHTS = np.arange(20_000.0)
HOUR_S = 3600.0


@pytest.fixture
def store(home: Path) -> LocalStore:
    return LocalStore(home / "snapshots")


@pytest.fixture
def revisions(store: LocalStore, tmp_path: Path) -> tuple[StoredSnapshot, StoredSnapshot]:
    """Two revisions of one model that share the shard of their weights, used two hours and one hour ago."""
    both = []
    for number in range(2):
        folder = tmp_path / f"r{number}"
        state = {"weights": WEIGHTS, "head": np.full((3, 4), float(number)), "number": number}
        snapshot.freeze(state, folder, shard_bytes=WEIGHTS.nbytes)
        both.append(store.publish("scale", folder))
        for path in folder.iterdir():
            path.unlink()
        moment = time.time() - (2 - number) * HOUR_S - 60
        os.utime(store.folder(both[-1]), (moment, moment))
    return both[0], both[1]


Revisions = tuple[StoredSnapshot, StoredSnapshot]


def test_gc_without_a_budget_removes_no_snapshot(faas: Faas, store: LocalStore, revisions: Revisions) -> None:
    (store.root / "scale" / ".staging-left").mkdir()
    done = faas("snapshot", "gc")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()]
    assert [row[:2] for row in rows[1:]] == [["goes", "leftover"], ["stays", "snapshot"], ["stays", "snapshot"]]
    assert "has no budget to fit into" in done.out
    assert done.err.startswith("freed 0 B of ")
    assert len(store.history("scale")) == 2


def test_gc_with_a_budget_removes_the_one_used_longest_ago(faas: Faas, store: LocalStore, revisions: Revisions) -> None:
    told = json.loads(faas("snapshot", "gc", "--budget", "158Ki", "--dry-run", "--json").out)
    assert told["dry_run"]
    assert len(store.history("scale")) == 2
    assert told["before_bytes"] > 158 * 1024 >= told["after_bytes"]
    done = json.loads(faas("snapshot", "gc", "--budget", "158Ki", "--json").out)
    fates = {item["digest"]: (item["goes"], item["reason"]) for item in done["items"]}
    assert fates == {
        revisions[0].short_digest: (True, "was used the longest ago"),
        revisions[1].short_digest: (False, "fits into the budget"),
    }
    assert snapshot.verify(store.folder(revisions[1]))
    assert [one.digest for one in store.history("scale")] == [revisions[1].digest]


def test_gc_takes_its_budget_from_the_environment(
    faas: Faas, store: LocalStore, revisions: Revisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAAS_SNAPSHOT_CACHE_BYTES", "1Ki")
    assert "goes" in faas("snapshot", "gc").out
    assert store.names() == []


def test_gc_says_when_what_is_in_use_is_more_than_the_budget(
    faas: Faas, store: LocalStore, revisions: Revisions
) -> None:
    held = snapshot.thaw(store.folder(revisions[0]))
    done = faas("snapshot", "gc", "--budget", "0")
    assert done.code == 0
    assert f"is mapped by process {os.getpid()}" in done.out
    assert "are in use, more than the budget of 0 B" in done.err
    assert held.state["number"] == 0


def test_gc_of_nothing_says_so(faas: Faas) -> None:
    assert faas("snapshot", "gc").out == "there is nothing in the store\n"


@pytest.mark.parametrize("budget", ["-1", "much", "1.5Qi"])
def test_a_budget_that_is_no_size_is_a_wrong_call(faas: Faas, budget: str) -> None:
    done = faas("snapshot", "gc", "--budget", budget)
    assert done.code == 2
    assert "--budget" in done.err


def test_diff_tells_what_changed_and_what_is_shared(faas: Faas, store: LocalStore, revisions: Revisions) -> None:
    old = f"scale@{revisions[0].digest[:8]}"
    lines = faas("snapshot", "diff", old, "scale").out.splitlines()
    assert lines[0] == "tensors:     1 the same (0 at another place), 1 changed, 0 renamed, 0 added, 0 removed"
    assert lines[1] == "  ~ head  F64 [3, 4]: other content"
    assert lines[3].startswith("shared:      156.")
    assert lines[4] == "objects:     differ"
    told = json.loads(faas("snapshot", "diff", str(store.folder(revisions[0])), "scale", "--json").out)
    assert [(one["before"]["name"], one["aspects"]) for one in told["changed"]] == [("head", ["content"])]
    assert told["shared_bytes"] > WEIGHTS.nbytes
    assert "1 the same" not in faas("snapshot", "diff", "scale", "scale").out


def test_a_digest_that_is_not_there_lists_those_that_are(faas: Faas, revisions: Revisions) -> None:
    done = faas("snapshot", "diff", "scale@0000", "scale")
    assert done.code == 2
    assert revisions[0].short_digest in done.err
    assert "did you mean 'scale'" in faas("snapshot", "diff", "scala@00", "scale").err


def test_inspect_tells_what_is_shared_with_whom(faas: Faas, revisions: Revisions) -> None:
    told = json.loads(faas("snapshot", "inspect", "scale", "--json").out)
    assert told["digest"] == revisions[1].digest
    assert list(told["shared_with"]) == [f"scale@{revisions[0].short_digest}"]
    assert WEIGHTS.nbytes < told["shared_bytes"] < told["size_bytes"]
    assert {one["file"] for one in told["files"]} > {"skeleton"}
    assert all(len(one["digest"]) == 64 for one in told["files"])
    older = json.loads(faas("snapshot", "inspect", f"scale@{revisions[0].digest}", "--json").out)
    assert older["digest"] == revisions[0].digest


def test_inspect_lists_files_and_tensors_when_asked(faas: Faas, revisions: Revisions) -> None:
    plain = faas("snapshot", "inspect", "scale").out
    assert re.search(r"^shared: +156\.", plain, re.MULTILINE)
    assert "weights" not in plain
    out = faas("snapshot", "inspect", "scale", "--tensors").out
    assert out.startswith(plain)
    assert ["weights", "F64", "[20000]"] in [line.split()[:3] for line in out.splitlines()]
    told = json.loads(faas("snapshot", "inspect", "scale", "--tensors", "--json").out)
    assert [(one["name"], one["shape"]) for one in told["tensors"]] == [("weights", [20000]), ("head", [3, 4])]


def test_what_is_imported_takes_the_place_of_what_was_used_longest_ago(
    faas: Faas, store: LocalStore, revisions: Revisions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"weight": np.ones(1000, np.float32)}, tmp_path / "model.safetensors")
    monkeypatch.setenv("FAAS_SNAPSHOT_CACHE_BYTES", "100Ki")
    done = faas("snapshot", "import", str(tmp_path / "model.safetensors"), "--name", "model")
    assert done.code == 0, done.err
    assert store.names() == ["model"]
    assert snapshot.verify(store.folder(store.find("model")))


def test_a_budget_of_the_environment_that_is_no_size_is_named(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAAS_SNAPSHOT_CACHE_BYTES", "plenty")
    done = faas("snapshot", "gc")
    assert done.code == 2
    assert "FAAS_SNAPSHOT_CACHE_BYTES='plenty'" in done.err
