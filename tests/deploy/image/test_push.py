"""Pushing to a real registry (Debian's docker-registry), some of it through a proxy that interferes."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from deploy.image import (
    SCRATCH,
    Changes,
    Connection,
    File,
    Keychain,
    Layer,
    LayerCache,
    Platform,
    Pushed,
    Transfer,
    append,
    inspect,
)
from deploy.image import upload as uploads
from deploy.image.errors import BadReference, BadSource, Denied, Faulty, NotAccepted, NotInRegistry
from deploy.image.manifest import DOCKER_CONFIG, DOCKER_LAYER, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Descriptor
from deploy.image.reference import Reference, digest_of
from deploy.image.registry import Registries
from tests import registry_server
from tests.registry_server import Fault, Proxy, Registry, Seen

pytestmark = registry_server.needed

BASE_CHANGES = Changes(env={"BASE": "1"}, entrypoint=("base",))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry_server.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def proxy(registry: Registry) -> Iterator[Proxy]:
    with registry_server.proxy(registry.host) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A repository of the test's own."""
    return "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:12]


@pytest.fixture
def layer(tmp_path: Path):  # type: ignore[no-untyped-def]
    cache = LayerCache(tmp_path / "layers")

    def make(path: str, content: bytes) -> Layer:
        return cache.of_files([File(path, content)], created_by="test")

    return make


def connection(slept: list[float] | None = None) -> Connection:
    return Connection(keychain=Keychain({}), sleep=slept.append if slept is not None else lambda seconds: None)


def push(to: str, *layers: Layer, base: str = SCRATCH, changes: Changes = BASE_CHANGES) -> Pushed:
    return append(base, to, layers, changes=changes, connection=connection())


def ways(pushed: Pushed) -> list[str]:
    return [one.way for one in pushed.transfers]


def test_what_is_pushed_is_what_is_there(registry: Registry, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"content")
    pushed = push(f"{registry.host}/{name}:v1", made)
    assert pushed.image.startswith(f"{registry.host}/{name}@sha256:")
    assert (pushed.is_new, ways(pushed), pushed.num_sent) == (True, ["sent", "sent"], 2)
    assert registry.blob(made.digest).read_bytes() == made.path.read_bytes()
    for image in (pushed.image, f"{registry.host}/{name}:v1"):
        reference, found = inspect(image, connection=connection())
        assert reference == pushed.image
        assert found.settings["Entrypoint"] == ["base"]
        assert found.config["rootfs"]["diff_ids"] == [made.diff_id]


def test_an_unchanged_push_sends_and_writes_nothing(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    to, made = f"{proxy.host}/{name}:v1", layer("/opt/a", b"content")
    first = push(to, made)
    proxy.seen.clear()
    again = push(to, made)
    assert again.image == first.image
    assert (again.is_new, again.sent_bytes, ways(again)) == (False, 0, ["present", "present"])
    assert {one.method for one in proxy.seen} == {"HEAD"}


def test_a_changed_layer_is_all_that_goes_with_the_documents(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    packages = layer("/opt/packages", os.urandom(300_000))
    push(f"{proxy.host}/{name}:v1", packages, layer("/opt/bundle", b"one"))
    proxy.seen.clear()
    bundle = layer("/opt/bundle", b"two")
    pushed = push(f"{proxy.host}/{name}:v1", packages, bundle)
    assert ways(pushed) == ["present", "sent", "sent"]
    config = inspect(pushed.image, connection=connection())[1].manifest.config
    assert pushed.sent_bytes == proxy.blob_bytes == bundle.size_bytes + config.size_bytes
    assert [one.path.rpartition("/")[2] for one in proxy.writes if "/manifests/" in one.path] == ["v1"]
    assert len(proxy.writes) == 3  # that layer, the configuration, the manifest


def test_a_tag_that_may_not_be_moved_is_left_and_the_image_put_beside_it(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    """As registries do whose tags are immutable."""
    to = f"{proxy.host}/{name}:v1"
    first = push(to, layer("/opt/a", b"one"))
    proxy.rule = lambda seen: (
        Fault(status=400) if seen.method == "PUT" and seen.path.endswith("/manifests/v1") else None
    )
    with pytest.raises(NotAccepted):
        push(to, layer("/opt/a", b"two"))
    for _ in range(2):
        other = append(
            SCRATCH, to, [layer("/opt/a", b"two")], changes=BASE_CHANGES, or_beside=True, connection=connection()
        )
        digest = other.image.partition("@")[2]
        assert inspect(f"{to}-{digest[7:19]}", connection=connection())[0] == other.image != first.image
    assert inspect(to, connection=connection())[0] == first.image


def test_another_tag_of_the_same_image_is_one_manifest(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"content")
    first = push(f"{proxy.host}/{name}:v1", made)
    proxy.seen.clear()
    assert push(f"{proxy.host}/{name}:v2", made).image == first.image
    assert [one.path for one in proxy.writes] == [f"/v2/{name}/manifests/v2"]


def test_a_base_of_the_same_registry_is_mounted(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    packages = layer("/opt/packages", os.urandom(300_000))
    base = push(f"{proxy.host}/{name}/base:v1", packages)
    proxy.seen.clear()
    bundle = layer("/opt/bundle", b"one")
    pushed = push(f"{proxy.host}/{name}/function:v1", bundle, base=base.image, changes=Changes(env={"A": "1"}))
    assert ways(pushed) == ["mounted", "sent", "sent"]
    assert proxy.blob_bytes == pushed.sent_bytes < 10_000
    found = inspect(pushed.image, connection=connection())[1]
    assert [one.digest for one in found.manifest.layers] == [packages.digest, bundle.digest]
    assert found.environment["BASE"] == "1"


def test_a_registry_that_does_not_mount_is_given_the_blob(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    packages = layer("/opt/packages", os.urandom(300_000))
    base = push(f"{proxy.host}/{name}/base:v1", packages)
    proxy.rule = lambda seen: Fault(status=405) if "mount=" in seen.path else None
    pushed = append(base.image, f"{proxy.host}/{name}/function:v1", connection=connection())
    assert (pushed.image.partition("@")[2], ways(pushed)) == (base.image.partition("@")[2], ["copied", "copied"])


def test_a_base_of_another_registry_is_copied(registry: Registry, name: str, layer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    packages = layer("/opt/packages", os.urandom(300_000))
    base = push(f"{registry.host}/{name}:v1", packages)
    told: list[Transfer] = []
    with registry_server.registry(tmp_path) as other:
        pushed = append(
            base.image,
            f"{other.host}/{name}:v1",
            [layer("/opt/bundle", b"one")],
            connection=connection(),
            progress=told.append,
        )
        assert ways(pushed) == ["copied", "sent", "sent"]
        assert other.blob(packages.digest).read_bytes() == packages.path.read_bytes()
    assert told[-1].done_bytes == told[-1].size_bytes


def test_a_copy_is_the_same_image(registry: Registry, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    one = push(f"{registry.host}/{name}/a:v1", layer("/opt/a", b"content"))
    other = append(one.image, f"{registry.host}/{name}/b:v1", connection=connection())
    assert other.image.partition("@")[2] == one.image.partition("@")[2]
    assert set(ways(other)) == {"mounted"}


def test_an_index_gives_the_image_of_the_machine(registry: Registry, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    """Two machines under one tag, as `docker buildx` makes them; the result is one image for one of them."""
    entries = []
    for architecture in ("amd64", "arm64"):
        platform = Platform("linux", architecture)
        pushed = append(
            SCRATCH, f"{registry.host}/{name}:{architecture}", [layer("/machine", architecture.encode())],
            platform=platform, connection=connection(),
        )  # fmt: skip
        digest = pushed.image.partition("@")[2]
        url = f"http://{registry.host}/v2/{name}/manifests/{digest}"
        content = httpx.get(url, headers={"Accept": OCI_MANIFEST}, trust_env=False).content
        entries.append(
            {
                "mediaType": OCI_MANIFEST,
                "digest": digest,
                "size": len(content),
                "platform": {"os": "linux", "architecture": architecture},
            }
        )
    index = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries})
    put = httpx.put(
        f"http://{registry.host}/v2/{name}/manifests/all", content=index, headers={"Content-Type": OCI_INDEX}
    )
    assert put.status_code == 201
    for entry in entries:
        platform = Platform("linux", entry["platform"]["architecture"])
        assert inspect(f"{registry.host}/{name}:all", platform=platform, connection=connection())[0].endswith(
            entry["digest"]
        )


def test_dockers_form_stays_dockers_form(registry: Registry, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"base")
    config = json.dumps(
        {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [made.diff_id]}}
    ).encode()
    reference = Reference.parse(f"{registry.host}/{name}:base")
    with Registries(connection()) as registries:
        repository = registries.repository(reference, push=True)
        blobs = (
            uploads.Blob(Descriptor(DOCKER_LAYER, made.digest, made.size_bytes), made.path),
            uploads.Blob(Descriptor(DOCKER_CONFIG, digest_of(config), len(config)), config),
        )
        for blob in blobs:
            uploads.upload(repository, blob)
        document = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": blobs[1].descriptor.document(),
            "layers": [blobs[0].descriptor.document()],
        }
        repository.put_manifest(json.dumps(document).encode(), DOCKER_MANIFEST, "base")
    pushed = append(str(reference), f"{registry.host}/{name}:v1", [layer("/opt/b", b"top")], connection=connection())
    found = inspect(pushed.image, connection=connection())[1].manifest
    assert (found.media_type, found.layers[1].media_type) == (DOCKER_MANIFEST, DOCKER_LAYER)


class Large:
    """A blob of 1 MB, sent in parts of 300 kB through the proxy."""

    def __init__(self, proxy: Proxy, name: str, tmp_path: Path) -> None:
        self.content = os.urandom(1_000_000)
        path = tmp_path / "blob"
        path.write_bytes(self.content)
        self.blob = uploads.Blob(Descriptor("x", digest_of(self.content), len(self.content)), path)
        self.proxy, self.name = proxy, name
        self.told: list[int] = []
        self.slept: list[float] = []

    def send(self, part_bytes: int = 300_000) -> None:
        with Registries(connection(self.slept)) as registries:
            repository = registries.repository(Reference.parse(f"{self.proxy.host}/{self.name}"), push=True)
            uploads.upload(repository, self.blob, self.told.append, part_bytes)
            assert repository.holds(self.blob.descriptor)
            assert b"".join(repository.read(self.blob.descriptor)) == self.content

    @property
    def parts(self) -> list[str]:
        return [one.headers["content-range"] for one in self.proxy.seen if one.method == "PATCH"]


@pytest.fixture
def large(proxy: Proxy, name: str, tmp_path: Path) -> Large:
    return Large(proxy, name, tmp_path)


def once(matches, fault: Fault):  # type: ignore[no-untyped-def]
    """A rule that does `fault` to the first request that `matches`."""
    left = [fault]
    return lambda seen: left.pop() if left and matches(seen) else None


def test_a_large_blob_goes_in_parts(large: Large) -> None:
    large.send()
    assert large.parts == ["0-299999", "300000-599999", "600000-899999", "900000-999999"]
    assert large.told[-1] == 1_000_000


def test_a_connection_that_breaks_between_parts_costs_no_part(large: Large) -> None:
    """Nothing of the second part has come when it breaks: the registry is asked, and that part is sent again."""
    large.proxy.rule = once(lambda seen: seen.headers.get("content-range") == "300000-599999", Fault(cut_after=0))
    large.send()
    assert large.slept
    assert large.parts == ["0-299999", "300000-599999", "300000-599999", "600000-899999", "900000-999999"]


def test_an_answer_that_is_lost_between_parts_is_asked_for(large: Large) -> None:
    """This registry's sessions do not outlive that (it compares what it has with what it last said): all is sent again.
    What one does that keeps to the protocol is in test_upload.py."""
    large.proxy.rule = once(lambda seen: seen.headers.get("content-range") == "300000-599999", Fault(mute=True))
    large.send()
    assert large.slept


def test_a_connection_that_breaks_inside_a_part_is_taken_up(large: Large) -> None:
    large.proxy.rule = once(lambda seen: seen.headers.get("content-range") == "300000-599999", Fault(cut_after=150_000))
    large.send()
    assert large.slept


def test_a_connection_that_breaks_inside_a_small_blob_is_taken_up(large: Large) -> None:
    large.proxy.rule = once(lambda seen: seen.method == "PUT", Fault(cut_after=150_000))
    large.send(part_bytes=2_000_000)
    assert [one.num_bytes for one in large.proxy.writes] == [1_000_000, 1_000_000]


def test_a_last_answer_that_is_lost_does_not_send_the_blob_again(large: Large) -> None:
    large.proxy.rule = once(lambda seen: seen.method == "PUT", Fault(mute=True))
    large.send(part_bytes=2_000_000)
    assert [one.num_bytes for one in large.proxy.writes] == [1_000_000]


def test_a_registry_that_is_busy_is_given_time(large: Large) -> None:
    fault = Fault(status=429, headers={"Retry-After": "9"})
    large.proxy.rule = once(lambda seen: seen.headers.get("content-range") == "300000-599999", fault)
    large.send()
    assert large.slept == [9]
    assert large.parts == ["0-299999", "300000-599999", "300000-599999", "600000-899999", "900000-999999"]


def test_a_registry_that_takes_no_parts_is_given_the_whole(large: Large) -> None:
    large.proxy.rule = lambda seen: Fault(status=405) if seen.method == "PATCH" else None
    large.send()
    assert [one.num_bytes for one in large.proxy.writes if one.method == "PUT"] == [1_000_000]


def test_a_registry_that_asks_for_larger_parts_gets_them(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = uploads._Session.begin
    monkeypatch.setattr(uploads._Session, "begin", lambda session: begin(session) or 500_000)
    large.send()
    assert large.parts == ["0-499999", "500000-999999"]


def test_a_registry_that_always_breaks_is_given_up(large: Large) -> None:
    large.proxy.rule = lambda seen: Fault(cut_after=1000) if seen.writes else None
    with pytest.raises(Faulty, match="it loses the upload") as caught:
        large.send(part_bytes=2_000_000)
    assert large.name in str(caught.value)


def test_a_blob_that_the_registry_drops_is_sent_again(registry: Registry, proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    """It is gone when the manifest comes; a real registry refuses that, and gets the blob once more."""
    made = layer("/opt/a", b"dropped")
    dropped = []

    def drop(seen: Seen) -> None:
        if made.digest.replace(":", "%3A") in seen.path.replace(":", "%3A") and seen.method == "PUT" and not dropped:
            dropped.append(seen)
            registry.forget(name, made.digest)

    proxy.after = drop
    pushed = push(f"{proxy.host}/{name}:v1", made)
    assert dropped
    assert registry.blob(made.digest).read_bytes() == made.path.read_bytes()
    assert inspect(pushed.image, connection=connection())[1].manifest.layers[0].digest == made.digest


def test_a_blob_that_is_lost_after_the_manifest_is_sent_again(
    registry: Registry, proxy: Proxy, name: str, layer
) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"lost later")
    lost = []

    def lose(seen: Seen) -> None:
        if seen.method == "PUT" and "/manifests/" in seen.path and not lost:
            lost.append(seen)
            registry.forget(name, made.digest)

    proxy.after = lose
    push(f"{proxy.host}/{name}:v1", made)
    assert lost
    assert registry.blob(made.digest).exists()


def test_a_registry_that_loses_whatever_it_is_given_is_named(
    registry: Registry, proxy: Proxy, name: str, layer
) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"always lost")

    def lose(seen: Seen) -> None:
        if seen.method == "PUT" and "/manifests/" in seen.path and registry.blob(made.digest).exists():
            registry.forget(name, made.digest)

    proxy.after = lose
    with pytest.raises(Faulty, match=f"{name}: blob {made.digest} was sent and taken, and is not there"):
        push(f"{proxy.host}/{name}:v1", made)


def test_a_push_that_lost_a_blob_since_sends_it_again(registry: Registry, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"collected")
    to = f"{registry.host}/{name}:v1"
    first = push(to, made)
    registry.forget(name, made.digest)
    again = push(to, made)
    assert (again.image, again.is_new) == (first.image, False)
    assert registry.blob(made.digest).exists()


def test_a_layer_that_is_not_what_it_was_is_named(registry: Registry, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    made = layer("/opt/a", b"content")
    made.path.write_bytes(bytes(made.size_bytes))
    with pytest.raises(BadSource, match="is not what it was when it was made"):
        push(f"{registry.host}/{name}:v1", made)


def test_what_is_not_there_is_said(registry: Registry, name: str) -> None:
    with pytest.raises(NotInRegistry, match=f"{registry.host}/{name}: the manifest nothing: answered 404"):
        inspect(f"{registry.host}/{name}:nothing", connection=connection())


def test_a_state_of_an_image_cannot_be_written_to(registry: Registry) -> None:
    with pytest.raises(BadReference, match="cannot be written to"):
        append(SCRATCH, f"{registry.host}/a@sha256:{'0' * 64}", connection=connection())


def test_a_registry_that_refuses_says_why(proxy: Proxy, name: str, layer) -> None:  # type: ignore[no-untyped-def]
    proxy.rule = lambda seen: Fault(status=403) if seen.method == "POST" else None
    with pytest.raises(Denied, match=name):
        push(f"{proxy.host}/{name}:v1", layer("/opt/a", b"content"))
    proxy.rule = lambda seen: Fault(status=413) if seen.method == "PUT" else None
    with pytest.raises(NotAccepted, match="answered 413"):
        push(f"{proxy.host}/{name}:v1", layer("/opt/a", b"content"))


def test_a_registry_behind_tokens_is_pushed_to(registry: Registry, name: str, layer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A real registry behind a stand-in for the token flow: each token is good for one scope set and four requests."""
    from tests.deploy.image.token_gate import token_gate

    script = tmp_path / "docker-credential-vault"
    script.write_text('#!/bin/sh\necho \'{"Username": "user", "Secret": "hunter2"}\'\n')
    script.chmod(0o755)
    with ExitStack() as stack:
        gate = stack.enter_context(token_gate(registry.host, user="user", password="hunter2", uses=4))
        keychain = Keychain(
            {
                "DOCKER_AUTH_CONFIG": json.dumps({"credHelpers": {gate.host: "vault"}}),
                "PATH": f"{tmp_path}:/usr/bin:/bin",
                "HOME": str(tmp_path),
            }
        )
        through = Connection(keychain=keychain)
        base = append(SCRATCH, f"{gate.host}/{name}/base:v1", [layer("/a", b"base")], connection=through)
        pushed = append(base.image, f"{gate.host}/{name}/f:v1", [layer("/b", b"top")], connection=through)
        assert ways(pushed) == ["mounted", "sent", "sent"]
        assert gate.num_tokens > 2
        with pytest.raises(Denied):
            inspect(pushed.image, connection=Connection(keychain=Keychain({"HOME": str(tmp_path)})))
