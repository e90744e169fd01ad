"""`faas snapshot push`, `pull` and `--store s3://` against a real server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot.local_store import LocalStore
from tests.s3_server import S3Server, rclone


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone(tmp_path_factory.mktemp("s3"), "bucket") as running:
        yield running


@pytest.fixture(autouse=True)
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN", "FAAS_SNAPSHOT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))


def faas(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def told(*arguments: object) -> object:
    done = faas(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "home/snapshots")
    snapshot.freeze({"weights": np.arange(100_000.0)}, tmp_path / "made")
    store.publish("model", tmp_path / "made")
    return store


def test_push_inspect_verify_pull(local: LocalStore, tmp_path: Path) -> None:
    place = f"s3://bucket/{tmp_path.name}"
    digest = local.find("model").digest
    (pushed,) = told("push", "model", place, "--json")  # type: ignore[misc]
    assert (pushed["name"], pushed["address"], pushed["digest"]) == ("model", f"{place}/model", digest)
    seen = told("inspect", "model", "--store", place, "--json")
    assert isinstance(seen, dict)
    assert (seen["digest"], seen["num_tensors"], seen["is_latest"]) == (digest, 1, True)
    verified = faas("verify", "model", "--store", place)
    assert verified.returncode == 0
    assert f"{place}/model: 2 files" in verified.stdout
    (pulled,) = told("pull", f"{place}/model", "--store", tmp_path / "other", "--json")  # type: ignore[misc]
    assert Path(pulled["snapshot"]) == LocalStore(tmp_path / "other").folder(
        LocalStore(tmp_path / "other").find("model")
    )
    assert snapshot.verify(Path(pulled["snapshot"])).digest == digest
    again = faas("pull", f"{place}/model@{digest[:12]}")
    assert again.returncode == 0
    assert "pulling model" in again.stderr
    assert not list((tmp_path / "home/snapshots").glob(".*"))


@pytest.mark.slow
def test_a_folder_is_pushed_under_a_name_of_its_own(local: LocalStore, tmp_path: Path) -> None:
    place = f"s3://bucket/{tmp_path.name}"
    (pushed,) = told("push", tmp_path / "made", place, "--as", "other", "--json")  # type: ignore[misc]
    assert pushed["address"] == f"{place}/other"
    (older,) = told("push", f"model@{local.find('model').short_digest}", place, "--json")  # type: ignore[misc]
    assert older["address"] == f"{place}/model"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pull", "bucket/x"), "is no address in S3"),
        (("pull", "s3://bucket"), "names no snapshot"),
        (("pull", "s3://absent/x/model"), "no such bucket"),
        (("pull", "s3://bucket/nothing/model"), "has no snapshot of 'model'"),
        (("pull", "s3://bucket/x/model", "--endpoint", "http://bucket.host"), "has the bucket 'bucket' in it"),
        (("verify", "model", "--store", "s3://bucket/nothing"), "has no snapshot of 'model'"),
    ],
)
def test_what_is_wrong_is_told_in_two_lines(arguments: tuple[str, ...], message: str) -> None:
    done = faas(*arguments)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [line[:5] for line in done.stderr.strip().splitlines()[-2:]] == ["error", "next:"]
    assert "faas snapshot create" not in done.stderr
