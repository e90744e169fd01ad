"""A revision whose snapshot lies in S3."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

import snapshot
from faas import local, pulled, revision, settings
from faas.errors import SettingError
from faas.instance_messages import Revision
from faas.prepare import prepare
from faas.revision import Loaded, thaw
from faas.spec import Snapshot
from snapshot.s3_store import S3Store
from tests.s3_server import rclone

APP = """
import numpy
from faas import inference_function, Snapshot


@inference_function(snapshot=Snapshot(uri="s3://bucket/models/adds"))
class Adds:
    def setup(self):
        self.weights = numpy.arange(100_000.0)

    def predict(self, number: int) -> float:
        return float(self.weights[number] + 1)
"""


@pytest.fixture
def pushed(tmp_path, monkeypatch):
    """A revision that has no snapshot here; its function names one in S3."""
    path = tmp_path / "adds_app.py"
    path.write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    (made,) = asyncio.run(prepare(str(path), tmp_path / "elsewhere", progress=lambda _: None))
    with rclone(tmp_path, "bucket") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        S3Store("s3://bucket/models").publish("adds", Path(made.snapshot))
        S3Store("s3://bucket/other").publish("renamed", Path(made.snapshot))
        yield Revision(id="r", target=made.description.target, function="adds")
    sys.modules.pop("adds_app", None)


def ask(loaded: Loaded) -> object:
    loaded.handler.after_thaw()
    endpoint = loaded.handler.function.main
    return local.call_one(loaded.handler, endpoint, endpoint.signature.decode(b"41"))


@pytest.mark.parametrize("background", [True, False])
def test_the_functions_own_address_is_pulled_into_the_nodes_store(pushed, background):
    loaded = Loaded(pushed)
    assert loaded.keeps_state
    loaded.thaw(background=background)
    assert ask(loaded) == 42.0
    assert loaded.mapped_bytes


@pytest.mark.slow
def test_a_zygote_has_it_at_rest_before_it_forks(pushed, tmp_path, monkeypatch):
    monkeypatch.setattr(revision, "_preloaded", None)
    revision.preload(msgspec.json.encode(pushed))
    assert ask(revision.load(pushed)) == 42.0
    store = snapshot.LocalStore(tmp_path / "home/snapshots")
    assert snapshot.verify(store.folder(store.find("adds")))


@pytest.mark.slow
def test_the_environment_goes_before_the_function_and_a_snapshot_here_before_both(pushed, tmp_path, monkeypatch):
    monkeypatch.setenv("FAAS_SNAPSHOT_URI", "s3://bucket/other/renamed")
    monkeypatch.setenv("FAAS_SNAPSHOT_DIR", str(tmp_path / "node"))
    loaded = Loaded(pushed)
    loaded.thaw(background=False)
    here = snapshot.LocalStore(tmp_path / "node")
    assert here.names() == ["renamed"]
    monkeypatch.setenv("FAAS_SNAPSHOT_URI", "s3://absent/x")
    folder = here.folder(here.find("renamed"))
    at_hand = Loaded(msgspec.structs.replace(pushed, snapshot=str(folder)))
    at_hand.thaw()
    assert ask(at_hand) == 42.0


@pytest.mark.slow
def test_what_the_node_has_is_not_asked_for_when_its_digest_is_known(pushed, tmp_path, monkeypatch):
    Loaded(pushed).thaw(background=False)
    store = snapshot.LocalStore(tmp_path / "home/snapshots")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    loaded = Loaded(msgspec.structs.replace(pushed, digest=store.find("adds").digest))
    loaded.thaw()
    assert ask(loaded) == 42.0


@pytest.mark.slow
def test_another_functions_snapshot_is_refused(pushed):
    other = msgspec.structs.replace(pushed, function="other")
    with pytest.raises(snapshot.SnapshotNotFoundError, match="of the function 'adds', not of 'other'"):
        thaw(other, "s3://bucket/models/adds", "auto", background=True)


@pytest.mark.slow
def test_what_cannot_be_had_is_told(pushed, monkeypatch):
    monkeypatch.setenv("FAAS_SNAPSHOT_URI", "s3://absent/models/adds")
    with pytest.raises(snapshot.BucketNotFoundError, match="s3://absent"):
        Loaded(pushed).thaw()


def test_where_the_store_cannot_be_written_to_setup_runs(pushed, tmp_path, monkeypatch, capfd):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FAAS_SNAPSHOT_DIR", str(tmp_path / "file" / "store"))
    loaded = Loaded(pushed)
    loaded.begin({})
    assert not loaded.thawed
    assert ask(loaded) == 42.0
    assert "setup() runs, since the snapshot does not thaw" in capfd.readouterr().err


def test_addresses_are_checked_where_they_are_written():
    with pytest.raises(SettingError, match="FAAS_SNAPSHOT_URI='models/adds': must be s3://bucket/prefix/NAME"):
        settings.read({"FAAS_SNAPSHOT_URI": "models/adds"})
    with pytest.raises(SettingError, match=r"Snapshot\(uri='/tmp/x'\): must be s3://bucket/prefix/NAME"):
        Snapshot(uri="/tmp/x")


def test_a_snapshot_is_fetched_ahead_once(pushed, tmp_path):
    address, digest = "s3://bucket/models/adds", S3Store("s3://bucket/models").find("adds").digest
    store = snapshot.LocalStore(settings.read().snapshots)
    pulled.fetch(address, digest)
    assert store.find("adds", digest).digest == digest
    S3Store("s3://bucket/models")._client.delete([f"models/adds/{digest[:16]}/manifest.json"])
    pulled.fetch(f"{address}@{digest}", None)  # nobody is asked
    with pytest.raises(snapshot.SnapshotNotFoundError):
        pulled.fetch("s3://bucket/models/other", None)
