"""Pulling from a server that misbehaves as it is told to."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapshot
from snapshot import fetching, pull
from snapshot.digests import CHUNK_BYTES
from snapshot.errors import (
    CredentialsError,
    DigestMismatchError,
    NotWritableError,
    SizeMismatchError,
    SnapshotError,
    UnreachableError,
)
from snapshot.local_store import LocalStore
from snapshot.manifest import Manifest
from snapshot.s3_client import S3Options
from snapshot.s3_store import S3Store
from tests.s3_server import Answer, Request, Stub, stub
from tests.snapshot.killing import check_store, check_tidy

ROOT = Path(snapshot.__file__).parents[1]


class Plain:
    pass


class Looks:
    """Looks into its tensor while it is rebuilt."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.total = float(self.weight.double().sum())


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen") / "snapshot"
    random = np.random.default_rng(0)
    state = {name: random.random(CHUNK_BYTES * 5 // 4 // 8) for name in "abcd"}
    snapshot.freeze(state, folder)
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setattr(fetching, "_FIRST_DELAY_S", 0.001)
    with stub() as running:
        yield running


@pytest.fixture
def into(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "local")


def store_at(server: Stub) -> S3Store:
    return S3Store("s3://bucket/models", S3Options(endpoint_url=server.endpoint, num_attempts=1))


def put(server: Stub, folder: Path, name: str = "model") -> Manifest:
    manifest = snapshot.read_manifest(folder)
    for record in manifest.all_files:
        server.objects[f"/bucket/models/blobs/{record.digest}"] = (folder / record.file).read_bytes()
    server.objects[f"/bucket/models/{name}/{manifest.short_digest}/manifest.json"] = manifest.encode()
    server.objects[f"/bucket/models/{name}/latest"] = manifest.digest.encode()
    return manifest


def shard_path(manifest: Manifest, number: int = 0) -> str:
    return f"/bucket/models/blobs/{manifest.shards[number].digest}"


def bytes_read(server: Stub, path: str) -> int:
    ranges = [request.range for request in server.requests if request.path == path]
    return sum(end - begin for begin, end in filter(None, ranges))


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in "abcd")


def pulled_well(server: Stub, folder: Path, into: LocalStore) -> None:
    stored = store_at(server).pull("model", into=into).finish()
    assert snapshot.verify(into.folder(stored)).digest == snapshot.read_manifest(folder).digest
    assert into.find("model") == stored
    assert equal(snapshot.thaw(into.folder(stored)).state, snapshot.thaw(folder).state)
    check_store(into)
    check_tidy(into)


def test_each_byte_is_asked_for_once(server: Stub, frozen: Path, into: LocalStore) -> None:
    manifest = put(server, frozen)
    told: list[tuple[int, int]] = []
    with store_at(server).pull("model", into=into, progress=lambda *bytes_: told.append(bytes_)) as pulling:
        pulling.finish()
    assert bytes_read(server, shard_path(manifest)) == manifest.shards[0].num_bytes
    assert told[-1] == (pulling.total_bytes, pulling.total_bytes)
    assert told == sorted(told)
    assert pulling.arrived_bytes == pulling.total_bytes == sum(record.num_bytes for record in manifest.all_files)
    num_requests = len(server.requests)
    assert store_at(server).pull("model", into=into).finish() == pulling.stored
    assert len(server.requests) == num_requests + 2  # latest and the manifest


def once(answer: Callable[[Request], Answer | None], of: str) -> Callable[[Request], Answer | None]:
    """Answer the first range request of each begin otherwise than it should be."""
    seen: set[tuple[int, int] | None] = set()
    lock = threading.Lock()

    def rule(request: Request) -> Answer | None:
        with lock:
            if request.path != of or request.range in seen:
                return None
            seen.add(request.range)
        return answer(request)

    return rule


FAULTS = {
    "busy": lambda server, request: Answer.error(503, "SlowDown"),
    "internal error": lambda server, request: Answer.error(500, "InternalError"),
    "slow down by 429": lambda server, request: Answer.error(429, "TooManyRequests"),
    "cut short at once": lambda server, request: Answer(**{**vars(server.plain(request)), "cut": 0}),
    "cut short": lambda server, request: Answer(**{**vars(server.plain(request)), "cut": 300_001}),
    "less than asked for": lambda server, request: Answer(206, b"1234", {"Content-Range": "bytes 0-3/*"}),
    "another range": lambda server, request: Answer(206, b"1" * 9, {"Content-Range": "bytes 7-15/*"}),
    "a range that is not said": lambda server, request: Answer(206, server.plain(request).body),
    "changed on the way": lambda server, request: Answer(
        206, bytes([server.plain(request).body[0] ^ 1]) + server.plain(request).body[1:], server.plain(request).headers
    ),
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_passes_costs_another_request(server: Stub, frozen: Path, into: LocalStore, fault: str) -> None:
    manifest = put(server, frozen)
    server.rule = once(lambda request: FAULTS[fault](server, request), shard_path(manifest))
    pulled_well(server, frozen, into)


@pytest.mark.parametrize("stated", [True, False])
def test_a_range_is_answered_with_status_200(server: Stub, frozen: Path, into: LocalStore, stated: bool) -> None:
    put(server, frozen)

    def rule(request: Request) -> Answer | None:
        if request.range is None:
            return None
        plain = server.plain(request)
        return Answer(200, plain.body, plain.headers) if stated else Answer(200, server.objects[request.path])

    server.rule = rule
    pulled_well(server, frozen, into)


def test_an_etag_means_nothing(server: Stub, frozen: Path, into: LocalStore) -> None:
    put(server, frozen)

    def rule(request: Request) -> Answer:
        plain = server.plain(request)
        return Answer(plain.status, plain.body, {**plain.headers, "ETag": f'"{len(server.requests):032x}"'})

    server.rule = rule
    pulled_well(server, frozen, into)


def test_a_server_that_never_answers_well_is_told(server: Stub, frozen: Path, into: LocalStore) -> None:
    path = shard_path(put(server, frozen))
    server.rule = lambda request: Answer.error(503, "SlowDown") if request.path == path else None
    pulling = store_at(server).pull("model", into=into, num_streams=1)
    with pytest.raises(UnreachableError, match=rf"s3:/{path}: could not be read, 6 times in a row: status 503"):
        pulling.finish()
    assert sum(request.path == path for request in server.requests) == fetching.NUM_ATTEMPTS
    nothing_is_visible(into)


def test_other_bytes_than_the_manifest_says_are_told(server: Stub, frozen: Path, into: LocalStore) -> None:
    path = shard_path(put(server, frozen))
    content = bytearray(server.objects[path])
    content[CHUNK_BYTES + 5] ^= 1
    server.objects[path] = bytes(content)
    with pytest.raises(DigestMismatchError, match=rf"bytes {CHUNK_BYTES} and on of s3:/{path} have digest"):
        store_at(server).pull("model", into=into).finish()
    nothing_is_visible(into)


def test_an_object_that_is_too_short_is_told(server: Stub, frozen: Path, into: LocalStore) -> None:
    path = shard_path(put(server, frozen))
    server.objects[path] = server.objects[path][: 2 * CHUNK_BYTES]
    with pytest.raises(SizeMismatchError, match=rf"s3:/{path} ends before its \d+ bytes"):
        store_at(server).pull("model", into=into, num_streams=1).finish()
    nothing_is_visible(into)


def test_an_object_that_is_gone_is_told(server: Stub, frozen: Path, into: LocalStore) -> None:
    path = shard_path(put(server, frozen))
    del server.objects[path]
    with pytest.raises(SnapshotError, match=rf"s3:/{path}: is not there, though it should be"):
        store_at(server).pull("model", into=into).finish()
    nothing_is_visible(into)


def test_a_manifest_that_is_another_is_told(server: Stub, frozen: Path, into: LocalStore) -> None:
    manifest = put(server, frozen)
    server.objects["/bucket/models/model/latest"] = (manifest.short_digest + "0" * 48).encode()
    with pytest.raises(DigestMismatchError, match=r"asked for was .*\(in s3://bucket; push it again\)"):
        store_at(server).pull("model", into=into)
    server.objects["/bucket/models/model/latest"] = b"../../etc/passwd"
    with pytest.raises(snapshot.DamagedError, match="is no digest"):
        store_at(server).pull("model", into=into)


def nothing_is_visible(into: LocalStore) -> None:
    assert into.names() == []
    check_store(into)
    assert not list((into.root / "model").glob(".staging*"))


def test_s3_04_keys_that_expire_during_a_pull(
    server: Stub, frozen: Path, into: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(key: str) -> None:
        new = tmp_path / f"credentials-{threading.get_ident()}"
        new.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=x\n")
        new.replace(tmp_path / "credentials")

    def expired(request: Request) -> Answer | None:
        if request.range is None or request.access_key != "OLD":
            return None
        write("NEW")
        return Answer.error(400, "ExpiredToken")

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    write("OLD")
    put(server, frozen)
    snapshot.freeze({"a": 1}, tmp_path / "other")
    store, other = store_at(server), put(server, tmp_path / "other", "other")
    served = snapshot.thaw(into.folder(store.pull("other", into=into).finish()))
    server.rule = expired
    store.pull("model", into=into).finish()
    assert {request.access_key for request in server.requests[-3:]} == {"NEW"}

    # For ever: one more try for each stream at most, the reason, and what is served stays.
    write("OLD")
    server.rule = lambda request: Answer.error(400, "ExpiredToken") if request.range else None
    num_requests = len(server.requests)
    with pytest.raises(CredentialsError, match=r"s3://bucket/models/blobs/\w+: .*no longer, valid \(ExpiredToken\)"):
        store_at(server).pull("model", into=LocalStore(tmp_path / "third"), num_streams=1).finish()
    assert len(server.requests) - num_requests == 2 + 2
    assert served.state == {"a": 1}
    assert into.find("other").digest == other.digest


def test_a_pull_goes_on_where_another_ended(server: Stub, frozen: Path, into: LocalStore) -> None:
    manifest = put(server, frozen)
    path = shard_path(manifest)
    cut = 3 * CHUNK_BYTES + 1000

    def rule(request: Request) -> Answer | None:
        if request.path != path or request.range is None or request.range[1] <= cut:
            return None
        begin, _ = request.range
        plain = server.plain(request)
        return Answer(206, plain.body, plain.headers, cut=cut - begin) if begin < cut else Answer.error(403, "Denied")

    server.rule = rule
    with pytest.raises(SnapshotError, match="Denied"):
        store_at(server).pull("model", into=into, num_streams=1).finish()
    server.requests.clear()
    server.rule = lambda request: None
    pulled_well(server, frozen, into)
    assert bytes_read(server, path) == manifest.shards[0].num_bytes - 3 * CHUNK_BYTES


def test_what_a_killed_pull_left_wrong_is_fetched_again(server: Stub, frozen: Path, into: LocalStore) -> None:
    manifest = put(server, frozen)
    shard = manifest.shards[0]
    content = bytearray((frozen / shard.file).read_bytes())
    content[CHUNK_BYTES] ^= 1
    into.blobs.partial.mkdir(parents=True)
    (into.blobs.partial / shard.digest).write_bytes(content)
    pulled_well(server, frozen, into)
    assert bytes_read(server, shard_path(manifest)) == CHUNK_BYTES


def test_files_that_another_snapshot_has_are_not_fetched(
    server: Stub, frozen: Path, into: LocalStore, tmp_path: Path
) -> None:
    manifest = put(server, frozen)
    into.publish("another", frozen)
    server.rule = lambda request: Answer.error(403, "AccessDenied") if request.range else None
    pulled = store_at(server).pull("model", into=into).finish()
    assert snapshot.verify(into.folder(pulled)) == manifest
    for record in manifest.all_files:
        assert (into.folder(pulled) / record.file).samefile(frozen / record.file)


def late(held: threading.Event, which: Callable[[Request], bool]) -> Callable[[Request], Answer | None]:
    """Answer some requests only when they are let through."""

    def rule(request: Request) -> Answer | None:
        if which(request):
            assert held.wait(60)
        return None

    return rule


def test_a_stopped_pull_is_told_and_can_go_on(server: Stub, frozen: Path, into: LocalStore) -> None:
    put(server, frozen)
    held = threading.Event()
    server.rule = late(held, lambda request: request.range is not None)
    pulling = store_at(server).pull("model", into=into)
    stopping = threading.Thread(target=pulling.stop)
    stopping.start()
    with pytest.raises(SnapshotError, match="the pull of model was stopped"):
        pulling.wait()
    held.set()
    stopping.join(30)
    pulling._thread.join(30)  # stopped before it had begun to fetch, it is not waited for
    nothing_is_visible(into)
    pulled_well(server, frozen, into)


@pytest.fixture
def module(tmp_path: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    linear = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6)))
    snapshot.freeze({"module": linear, "plain": Plain()}, tmp_path / "module")
    return tmp_path / "module", {name: tensor.detach().clone() for name, tensor in linear.state_dict().items()}


def test_a_graph_is_rebuilt_before_its_tensors_are_there(
    server: Stub, module: tuple[Path, dict[str, torch.Tensor]], into: LocalStore
) -> None:
    folder, tensors = module
    manifest = put(server, folder)
    path, held = shard_path(manifest), threading.Event()
    server.rule = late(held, lambda request: request.path == path and bool(request.range and request.range[0]))
    # The first chunk of the shard, with its head, gets through alone.
    pulling = store_at(server).pull("model", into=into, num_streams=4)
    thawed = pulling.thaw()
    last = thawed.state["module"][5].weight
    pulling.wait_for("module.0.weight")
    assert torch.equal(thawed.state["module"][0].weight, tensors["0.weight"])
    assert CHUNK_BYTES <= pulling.arrived_bytes < 2 * CHUNK_BYTES
    assert not torch.equal(last.detach().clone(), tensors["5.weight"])
    held.set()
    assert bytes(pulling.memory("module.5.weight")) == tensors["5.weight"].numpy().tobytes()
    pulling.wait()
    assert torch.equal(last, tensors["5.weight"])
    stored = pulling.finish()
    assert torch.equal(last, tensors["5.weight"])
    assert torch.equal(snapshot.thaw(into.folder(stored)).state["module"][5].weight, tensors["5.weight"])
    with pytest.raises(KeyError):
        pulling.wait_for("module.9.weight")


def test_a_graph_is_rebuilt_before_the_chunk_of_its_head_is_there(
    server: Stub, module: tuple[Path, dict[str, torch.Tensor]], into: LocalStore
) -> None:
    folder, tensors = module
    manifest = put(server, folder)
    path, held = shard_path(manifest), threading.Event()
    content, rebuilt = server.objects[path], []

    def rule(request: Request) -> Answer | None:
        if request.path != path or request.range is None:
            return None
        if rebuilt or request.range[0]:
            assert held.wait(60)
            return None
        rebuilt.append(request)  # the head gets through, and no more of its chunk
        return Answer(
            206, content[:CHUNK_BYTES], {"Content-Range": f"bytes 0-{CHUNK_BYTES - 1}/{len(content)}"}, 1 << 20
        )

    server.rule = rule
    pulling = store_at(server).pull("model", into=into)
    thawed = pulling.thaw()
    assert pulling.arrived_bytes == manifest.skeleton.num_bytes
    held.set()
    pulling.finish()
    assert all(torch.equal(thawed.state["module"].state_dict()[name], one) for name, one in tensors.items())


def test_of_later_shards_the_heads_alone_come_before_the_first_tensor(
    server: Stub, tmp_path: Path, into: LocalStore
) -> None:
    state = {name: np.full(CHUNK_BYTES * 5 // 4, number, np.uint8) for number, name in enumerate("abc")}
    snapshot.freeze(state, tmp_path / "shards", shard_bytes=CHUNK_BYTES)
    manifest = put(server, tmp_path / "shards")
    pulling = store_at(server).pull("model", into=into, num_streams=1)
    thawed = pulling.thaw()
    pulling.finish()
    assert all(np.array_equal(thawed.state[name], one) for name, one in state.items())
    expected = [(shard, 0, shard.head_bytes) for shard in manifest.shards[1:]]
    for shard in manifest.shards:
        expected += [(shard, 0, CHUNK_BYTES), (shard, CHUNK_BYTES, shard.num_bytes)]
    paths = {f"/bucket/models/blobs/{shard.digest}": shard for shard in manifest.shards}
    asked = [(paths[request.path], *request.range) for request in server.requests if request.path in paths]
    assert asked == expected


def test_code_that_looks_is_given_what_is_there(server: Stub, tmp_path: Path, into: LocalStore) -> None:
    weight = torch.ones(CHUNK_BYTES // 2)
    snapshot.freeze([torch.zeros(CHUNK_BYTES // 4), Looks(weight)], tmp_path / "looks")
    put(server, tmp_path / "looks")
    pulling = store_at(server).pull("model", into=into, num_streams=1)
    state = pulling.thaw().state
    assert state[1].total == float(weight.sum())


def test_a_failed_pull_is_told_by_thaw_and_by_wait(server: Stub, frozen: Path, into: LocalStore) -> None:
    path = shard_path(put(server, frozen))
    server.rule = lambda request: Answer.error(403, "AccessDenied") if request.path == path else None
    pulling = store_at(server).pull("model", into=into)
    for wait in (pulling.thaw, pulling.wait, pulling.finish, lambda: pulling.wait_for("state.a")):
        with pytest.raises((snapshot.AccessDeniedError, KeyError)):
            wait()


def test_a_failure_after_the_graph_was_rebuilt_surfaces(
    server: Stub, module: tuple[Path, dict[str, torch.Tensor]], into: LocalStore
) -> None:
    folder, _ = module
    path, held = shard_path(put(server, folder)), threading.Event()

    def rule(request: Request) -> Answer | None:
        if request.path != path or not request.range or request.range[0] == 0:
            return None
        held.wait(30)
        return Answer.error(403, "AccessDenied")

    server.rule = rule
    pulling = store_at(server).pull("model", into=into)
    thawed = pulling.thaw()
    assert thawed.mapped_bytes
    held.set()
    for wait in (pulling.wait, pulling.finish):
        with pytest.raises(snapshot.AccessDeniedError):
            wait()
    nothing_is_visible(into)


PULL = """
import sys
from pathlib import Path
from snapshot.local_store import LocalStore
from snapshot.s3_client import S3Options
from snapshot.s3_store import S3Store
endpoint, root = sys.argv[1:]
store = S3Store("s3://bucket/models", S3Options(endpoint_url=endpoint))
stored = store.pull("model", into=LocalStore(Path(root))).finish()
print(stored.digest)
"""


def test_s3_05_processes_that_want_one_snapshot_make_one_download(server: Stub, frozen: Path, into: LocalStore) -> None:
    manifest = put(server, frozen)
    path = shard_path(manifest)
    children: list[subprocess.Popen[str]] = []
    reached = threading.Event()

    def kill_the_first(request: Request) -> Answer | None:
        """Kill it in the middle of what it reads."""
        if request.path == path and request.range and request.range[0] and not reached.is_set():
            children[0].kill()
            reached.set()
        return None

    def start() -> None:
        command = [sys.executable, "-c", PULL, server.endpoint, str(into.root)]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))

    server.rule = kill_the_first
    start()
    assert reached.wait(60)
    for _ in range(4):
        start()
    said = [child.communicate(timeout=60)[0].strip() for child in children]
    assert said == ["", *[manifest.digest] * 4]
    assert [child.returncode for child in children] == [-9, 0, 0, 0, 0]
    # What the killed one asked for, and once more what was missing then.
    assert bytes_read(server, path) <= 2 * manifest.shards[0].num_bytes
    check_store(into)
    assert list(into.blobs.partial.iterdir()) == []


def test_an_address_that_is_taken_for_one_of_another_time_is_signed_anew(
    server: Stub, frozen: Path, into: LocalStore
) -> None:
    manifest = put(server, frozen)
    refused: list[str] = []

    def once(request: Request) -> Answer | None:
        if request.path == shard_path(manifest) and not refused:
            refused.append(request.path)
            return Answer.error(403, "RequestTimeTooSkewed")
        return None

    server.rule = once
    pulled_well(server, frozen, into)
    assert refused


def test_more_files_than_a_process_may_open_are_pulled_some_at_a_time(
    server: Stub, into: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "_MAX_OPEN_FILES", 4)
    files = snapshot.KeptFiles({f"{number}.txt": str(number % 20).encode() for number in range(30)})
    snapshot.freeze({"weights": np.arange(9.0), "files": files}, tmp_path / "s", shard_bytes=8)
    put(server, tmp_path / "s")
    opened: list[int] = []
    server.rule = lambda request: opened.append(len(list((into.root / "partial").glob("*"))))
    with store_at(server).pull("model", into=into) as pulling:
        thawed = pulling.thaw().state
    assert max(opened) == 4
    assert thawed["weights"].tolist() == list(range(9))
    assert [(thawed["files"] / f"{number}.txt").read_text() for number in (0, 19, 20, 29)] == ["0", "19", "0", "9"]
    snapshot.verify(into.folder(pulling.finish()))
    check_store(into)
    check_tidy(into)


def test_a_folder_that_cannot_be_written_to_is_named(server: Stub, frozen: Path, tmp_path: Path) -> None:
    put(server, frozen)
    (tmp_path / "file").touch()
    with pytest.raises(NotWritableError, match=r"file/store: model cannot be written there \(Not a directory"):
        store_at(server).pull("model", into=LocalStore(tmp_path / "file" / "store")).finish()
