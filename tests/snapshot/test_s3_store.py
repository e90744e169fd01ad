"""The store in S3, against a real server."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import KeptFiles, s3_store
from snapshot.digests import CHUNK_BYTES
from snapshot.errors import BadNameError, DigestMismatchError, SnapshotNotFoundError
from snapshot.local_store import LocalStore
from snapshot.s3_client import S3Client
from snapshot.s3_store import S3Store
from tests.s3_server import S3Server, rclone
from tests.snapshot.killing import check_store, kill_at_random_moments

ROOT = Path(snapshot.__file__).parents[1]
MANY_KILLS = pytest.mark.parametrize(
    "num_kills", [5, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
STATE = {"weights": np.arange(5000.0), "text": "x" * 1000}


class Keeping:
    """An object that keeps files."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files


def read_back(kept: Path) -> "Keeping":
    return Keeping({path.name: path.read_bytes() for path in kept.iterdir()})


snapshot.reducer(Keeping)(lambda one: (read_back, (KeptFiles(one.files),)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone(tmp_path_factory.mktemp("s3"), "bucket", "my.dotted.bucket") as running:
        yield running


@pytest.fixture(autouse=True)
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(tmp_path: Path) -> S3Store:
    return S3Store(f"s3://bucket/{tmp_path.name}")


@pytest.fixture
def under(server: S3Server, tmp_path: Path) -> Path:
    """Where the store's objects are."""
    return server.root / "bucket" / tmp_path.name


def made(tmp_path: Path, value: object) -> Path:
    folder = tmp_path / f"made-{value}"
    snapshot.freeze({**STATE, "value": value}, folder)
    return folder


def test_a_name_that_begins_like_another_is_another(store: S3Store, tmp_path: Path) -> None:
    for name, value in (("embed", 1), ("embed-large", 2), ("embed.v2", 3)):
        store.publish(name, made(tmp_path, value))
        store.number(name, 1, store.find(name).digest)
    assert [len(store.history(name)) for name in store.names()] == [1, 1, 1]
    store.publish("embed", made(tmp_path, 4))
    store.unnumber("embed", 1)
    assert len(store.prune("embed", keep=1)) == 1
    assert [list(store.versions(name)) for name in ("embed", "embed-large", "embed.v2")] == [[], [1], [1]]
    into = LocalStore(tmp_path / "local")
    assert snapshot.thaw(into.folder(store.pull("embed", into=into).finish())).state["value"] == 4
    assert into.names() == ["embed"]


@pytest.mark.parametrize("address", ["s3://bucket", "s3://my.dotted.bucket/a b+c/ü%20", "s3://bucket/deep/er"])
def test_what_is_published_can_be_pulled(address: str, tmp_path: Path) -> None:
    store, into = S3Store(address), LocalStore(tmp_path / "local")
    published = store.publish("embed", made(tmp_path, 1))
    assert published == store.find("embed") == store.history("embed")[0]
    assert "embed" in store.names()
    with store.pull("embed", into=into) as pulling:
        thawed = pulling.thaw()
        assert pulling.finish() == published
    assert thawed.state["value"] == 1
    assert np.array_equal(thawed.state["weights"], STATE["weights"])
    assert into.find("embed").digest == published.digest
    check_store(into)


def test_only_what_is_missing_is_sent(store: S3Store, under: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    manifest = snapshot.read_manifest(made(tmp_path, 1))
    store.publish("one", tmp_path / "made-1", progress=lambda *bytes_: told.append(bytes_))
    total = sum(record.num_bytes for record in manifest.all_files)
    assert told[-1] == (total, total)
    blobs = {path: path.stat().st_mtime_ns for path in (under / "blobs").iterdir()}
    store.publish("two", made(tmp_path, 2))
    store.publish("two", tmp_path / "made-1")
    after = {path: path.stat().st_mtime_ns for path in (under / "blobs").iterdir()}
    assert blobs.items() <= after.items()
    assert len(after) == len(blobs) + 1  # the skeleton of the second; the weights are shared
    assert store.find("two").digest == manifest.digest
    assert len(store.history("two")) == 2


def test_a_file_that_was_cut_short_there_is_sent_again(store: S3Store, under: Path, tmp_path: Path) -> None:
    store.publish("one", made(tmp_path, 1))
    blob = max((under / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    content = blob.read_bytes()
    S3Client("bucket").put(store.address.key("blobs", blob.name), content[:-1])
    store.publish("one", tmp_path / "made-1")
    assert blob.read_bytes() == content


def test_a_damaged_snapshot_is_not_sent(store: S3Store, under: Path, tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    shard = folder / snapshot.read_manifest(folder).shards[0].file
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(content)
    with pytest.raises(DigestMismatchError):
        store.publish("one", folder)
    assert store.names() == []
    assert not (under / "one").exists()


def test_snapshots_are_found_by_the_beginning_of_their_digest(store: S3Store, tmp_path: Path) -> None:
    first, second = (store.publish("embed", made(tmp_path, value)) for value in range(2))
    assert store.find("embed") == second
    for length in (8, 16, 20, 64):
        assert store.find("embed", first.digest[:length]).digest == first.digest
    assert not store.find("embed", first.digest).is_latest
    with pytest.raises(SnapshotNotFoundError, match=rf"several snapshots of 'embed' in {store.address}"):
        store.find("embed", "")
    for wrong in ("0" * 64, first.digest[:20] + "z", "zz"):
        with pytest.raises(SnapshotNotFoundError, match=rf"no snapshot of 'embed' .* for '{wrong}', among: "):
            store.find("embed", wrong)
    with pytest.raises(SnapshotNotFoundError, match=r"has no snapshot of 'absent'; it has: embed"):
        store.find("absent")
    with pytest.raises(BadNameError):
        store.find("../x")


def test_the_oldest_are_pruned_and_their_files_when_nobody_can_be_about_to_name_them(
    store: S3Store, under: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [store.publish("embed", made(tmp_path, value)) for value in range(4)]
    num_blobs = len(list((under / "blobs").iterdir()))
    assert [one.digest for one in store.prune("embed", keep=2)] == [stored[1].digest, stored[0].digest]
    assert [one.digest for one in store.history("embed")] == [stored[3].digest, stored[2].digest]
    assert len(list((under / "blobs").iterdir())) == num_blobs
    monkeypatch.setattr(s3_store, "_KEPT_FOR_S", -3600.0)
    store.prune("embed", keep=0)
    assert [one.digest for one in store.history("embed")] == [stored[3].digest]
    held = {record.digest for record in snapshot.read_manifest(tmp_path / "made-3").all_files}
    assert {path.name for path in (under / "blobs").iterdir()} == held
    with pytest.raises(ValueError, match="-1"):
        store.prune("embed", keep=-1)


def test_s3_02_sizes_at_every_edge_and_folder_markers(store: S3Store, under: Path, tmp_path: Path) -> None:
    sizes = {
        "empty.txt": 0,
        "one.bin": 1,
        "chunk.bin": CHUNK_BYTES,
        "more.bin": CHUNK_BYTES + 1,
        "less": CHUNK_BYTES - 1,
    }
    files = {name: np.random.default_rng(size).bytes(size) for name, size in sizes.items()}
    snapshot.freeze({"kept": Keeping({**files, "also-empty": b""}), "none": np.zeros((0, 3))}, tmp_path / "made")
    for marker in ("blobs", "m", "m/" + snapshot.read_manifest(tmp_path / "made").short_digest, "n"):
        (under / marker).mkdir(parents=True)  # lists show folders that are empty as they do markers
    (under / "blobs" / "not-a-digest").write_bytes(b"")
    stored = store.publish("m", tmp_path / "made")
    into = LocalStore(tmp_path / "local")
    pulled = store.pull("m", into=into).finish()
    folder = into.folder(pulled)
    assert snapshot.verify(folder).digest == stored.digest
    assert {path.name: path.read_bytes() for path in (folder / "files/0").iterdir()} == {**files, "also-empty": b""}
    with store.pull("m", into=LocalStore(tmp_path / "other")) as pulling:
        assert pulling.thaw().state["kept"].files == {**files, "also-empty": b""}
    assert store.names() == ["m"]
    check_store(into)


def test_s3_05_a_full_disk_is_told(store: S3Store, tmp_path: Path) -> None:
    snapshot.freeze({"large": np.zeros(3 << 20)}, tmp_path / "large")
    store.publish("large", tmp_path / "large")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("mounting needs root")
    try:
        into = LocalStore(small)
        with pytest.raises(snapshot.NoSpaceError, match=r"no room for .* bytes.*are free"):
            store.pull("large", into=into).finish()
        assert into.names() == []
        assert list(into.blobs.folder.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_readers_see_whole_snapshots_while_others_publish(store: S3Store, tmp_path: Path) -> None:
    folders = [made(tmp_path, value) for value in range(4)]
    store.publish("embed", folders[0])
    done = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                store.locate("embed")
        except BaseException as error:
            failures.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    for folder in folders:
        store.publish("embed", folder)
    done.set()
    reading.join(30)
    assert not failures
    assert len(store.history("embed")) == 4


@pytest.mark.slow
@MANY_KILLS
def test_a_push_killed_at_any_moment_leaves_a_store_that_is_whole(
    store: S3Store, tmp_path: Path, num_kills: int
) -> None:
    store.publish("embed", made(tmp_path, "first"))

    def work(point: int) -> Callable[[], object]:
        folder = tmp_path / f"push-{point}"
        snapshot.freeze(
            {"large": np.random.default_rng(point).bytes(1 << 20), "array": np.full(1 << 19, point)}, folder
        )
        return lambda: S3Store(store.address).publish("embed", folder)

    def check(point: int) -> None:
        into = LocalStore(tmp_path / "checked")
        pulled = store.pull("embed", into=into).finish()
        assert snapshot.verify(into.folder(pulled)).digest == pulled.digest
        into.prune("embed", keep=0)

    kill_at_random_moments(work, check, num_kills=num_kills)
    into = LocalStore(tmp_path / "all")
    for stored in store.history("embed"):
        store.pull("embed", stored.digest, into=into).finish()
    check_store(into)


@pytest.mark.slow
@MANY_KILLS
def test_a_pull_killed_at_any_moment_leaves_a_store_that_is_whole(
    store: S3Store, tmp_path: Path, num_kills: int
) -> None:
    state = {name: np.random.default_rng(number).random(1 << 20) for number, name in enumerate("abc")}
    snapshot.freeze({**state, "again": state["a"] + 0}, tmp_path / "made", shard_bytes=9 << 20)
    digest = store.publish("embed", tmp_path / "made").digest
    seen: set[bool] = set()

    def local(point: int) -> LocalStore:
        return LocalStore(tmp_path / f"local-{point}")

    def work(point: int) -> Callable[[], object]:
        return lambda: S3Store(store.address).pull("embed", into=local(point)).finish()

    def check(point: int) -> None:
        into = local(point)
        check_store(into)
        seen.add("embed" in into.names())
        store.pull("embed", into=into).finish()
        check_store(into)
        assert into.find("embed").digest == digest
        assert list(into.blobs.partial.iterdir()) == []
        shutil.rmtree(into.root)

    kill_at_random_moments(work, check, num_kills=num_kills)
    assert True in seen
    assert False in seen or num_kills < 100


def test_reaching_s3_imports_neither_torch_nor_numpy() -> None:
    program = "import sys, snapshot.s3_store; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_snapshots_of_another_format_are_in_nobodys_way(
    store: S3Store, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot.freeze(STATE, tmp_path / "a")
    stored = store.publish("embed", tmp_path / "a")
    key = store.address.key("embed", stored.short_digest, "manifest.json")
    other = store.address.key("embed", "0" * 16, "manifest.json")
    client = S3Client("bucket")
    content = client.get(key)
    assert content is not None
    client.put(other, content.replace(b'"format_version":2', b'"format_version":1'))
    monkeypatch.setattr(s3_store, "_KEPT_FOR_S", -60.0)
    assert store.names() == ["embed"]
    assert store.history("embed") == [stored]
    assert store.prune("embed", keep=1) == []
    assert client.size(other) is not None
    into = LocalStore(tmp_path / "local")
    assert snapshot.verify(into.folder(store.pull("embed", into=into).finish())).digest == stored.digest
