import socket
import threading
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import reducers


class Client:
    def __init__(self, url: str, table: np.ndarray) -> None:
        self.url, self.table = url, table
        self.lock = threading.Lock()


class Special(Client):
    pass


class Engine:
    """Reads its model from a folder, as many runtimes do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = (folder / "parts" / "model.txt").read_text()
        self.handle = socket.socketpair()


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reducers, "_reducers", {})


def close(engine: Engine) -> None:
    for end in engine.handle:
        end.close()


def test_three_lines_make_a_class_freezable(tmp_path: Path) -> None:
    @snapshot.reducer(Client)
    def reduce_client(client: Client) -> tuple:
        return Client, (client.url, client.table)

    client = Client("http://host", np.arange(1000.0))
    manifest = snapshot.freeze({"a": client, "b": client, "table": client.table}, tmp_path / "s")
    back = snapshot.thaw(tmp_path / "s").state
    assert back["a"] is back["b"]
    assert back["a"].url == "http://host"
    assert back["a"].table is back["table"]
    assert manifest.tensor_bytes == 8000
    assert not back["a"].lock.locked()


def test_the_nearest_registered_class_decides(tmp_path: Path) -> None:
    snapshot.reducer(Client)(lambda client: (str, ("a client",)))
    snapshot.freeze([Special("u", np.zeros(1))], tmp_path / "first")
    assert snapshot.thaw(tmp_path / "first").state == ["a client"]
    snapshot.reducer(f"{Special.__module__}.Special")(lambda client: (str, ("special",)))
    snapshot.freeze([Special("u", np.zeros(1)), Client("u", np.zeros(1))], tmp_path / "second")
    assert snapshot.thaw(tmp_path / "second").state == ["special", "a client"]


def test_kept_files_come_back_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("words")

    @snapshot.reducer(Engine)
    def reduce_engine(engine: Engine) -> tuple:
        files = {"parts/model.txt": engine.folder / "parts" / "model.txt", "made.bin": b"made"}
        return Engine, (snapshot.KeptFiles(files),)

    (tmp_path / "parts").mkdir()
    (tmp_path / "model.txt").rename(tmp_path / "parts" / "model.txt")
    engine = Engine(tmp_path)
    manifest = snapshot.freeze(engine, tmp_path / "s")
    close(engine)
    assert [file.file for file in manifest.files] == ["files/0/parts/model.txt", "files/0/made.bin"]
    (tmp_path / "parts" / "model.txt").unlink()
    back = snapshot.thaw(tmp_path / "s").state
    close(back)
    assert back.text == "words"
    assert (back.folder / "made.bin").read_bytes() == b"made"


def test_kept_files_met_twice_are_kept_once(tmp_path: Path) -> None:
    kept = snapshot.KeptFiles({"f": b"words"})
    manifest = snapshot.freeze([kept, kept], tmp_path / "s")
    assert len(manifest.files) == 1
    first, second = snapshot.thaw(tmp_path / "s").state
    assert first == second == tmp_path / "s" / "files" / "0"


@pytest.mark.parametrize("damage", [b"", b"wordz"])
def test_a_damaged_kept_file_is_found(tmp_path: Path, damage: bytes) -> None:
    snapshot.freeze(snapshot.KeptFiles({"f": b"words"}), tmp_path / "s")
    kept = tmp_path / "s" / "files" / "0" / "f"
    kept.unlink()
    kept.write_bytes(damage)
    with pytest.raises(snapshot.DamagedError, match="files/0/f"):
        snapshot.verify(tmp_path / "s")


@pytest.mark.parametrize("name", ["../f", "a/../f", "/f", "", ".", "a//b", "a\0b"])
def test_a_kept_file_outside_its_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="inside the kept folder"):
        snapshot.KeptFiles({name: b"x"})


def test_a_reducer_that_fails_is_named_by_the_path_of_its_object(tmp_path: Path) -> None:
    @snapshot.reducer(Client)
    def reduce_client(client: Client) -> tuple:
        raise RuntimeError("the connection is busy")

    with pytest.raises(snapshot.Unfreezable, match=r"state\['c'\]: the connection is busy"):
        snapshot.freeze({"c": Client("u", np.zeros(1))}, tmp_path / "s")


def test_what_a_reducer_names_but_cannot_be_frozen_has_a_path(tmp_path: Path) -> None:
    snapshot.reducer(Client)(lambda client: (Client, (client.url, client.lock)))
    client = Client("u", np.zeros(1))
    with client.lock, pytest.raises(snapshot.Unfreezable, match=r"state\[0\].*: it is held"):
        snapshot.freeze([client], tmp_path / "s")
