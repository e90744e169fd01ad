from __future__ import annotations

import logging
import multiprocessing
from pathlib import Path

import msgspec
import pytest

from faas.engine.selection import weights
from faas.engine.selection.state_file import StateFile

NAMES, LEAST = ("a", "b"), 0.001


def shares(path: Path, context: str = "") -> dict[str, float]:
    return weights.shares(StateFile(path).merge({}, NAMES, LEAST)[context])


def test_nothing_is_known_and_nothing_written_before_something_is_learned(tmp_path: Path):
    file = StateFile(tmp_path / "state" / "f.json")
    assert file.merge({}, NAMES, LEAST) == {}
    assert not file.path.parent.exists()


def test_what_was_learned_is_there_for_the_next_process(tmp_path: Path):
    path = tmp_path / "f.json"
    told = StateFile(path).merge({"": {"a": -1.0}, "ann": {"b": -2.0}}, NAMES, LEAST)
    assert StateFile(path).merge({}, NAMES, LEAST) == {context: pytest.approx(logs) for context, logs in told.items()}
    assert shares(path)["a"] < shares(path)["b"]
    assert shares(path, "ann")["a"] > shares(path, "ann")["b"]


def learn(path: Path, num_times: int) -> None:
    for _ in range(num_times):
        StateFile(path).merge({"": {"a": -0.01}}, NAMES, LEAST)


def test_what_several_processes_learn_at_once_adds_up(tmp_path: Path):
    path = tmp_path / "f.json"
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=learn, args=(path, 20)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    held = StateFile(path).merge({}, NAMES, LEAST)[""]
    assert held["a"] - held["b"] == pytest.approx(-0.01 * 40)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}', b'{"format": 99, "contexts": {}}', b"\xff"])
def test_a_file_that_is_not_ours_costs_what_it_held_and_no_more(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert StateFile(path).merge({}, NAMES, LEAST) == {}
    assert str(path) in caplog.text
    StateFile(path).merge({"": {"a": -1.0}}, NAMES, LEAST)
    assert msgspec.json.decode(path.read_bytes())["format"] == 1


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError, match="taken"):
        StateFile(tmp_path / "taken" / "f.json").merge({"": {"a": -1.0}}, NAMES, LEAST)
