import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.image import SCRATCH, Changes, Connection, File, Keychain, Layer, Platform, append, inspect
from deploy.image.compose import compose, scratch
from deploy.image.errors import WheelsError, WrongPlatform
from deploy.image.layer_cache import LayerCache
from faas import modules
from faas.deployment import runtime_image
from faas.deployment.plan import BUNDLE
from faas.deployment.runtime_image import LIBRARIES, Recipe
from tests import registry_server
from tests.registry_server import Registry
from tests.wheels import only_from, write_wheel

CONNECTION = Connection(keychain=Keychain({}))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry_server.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def dockerfile(kind: str) -> list[tuple[str, str]]:
    text = (modules.HOME / "deploy" / f"Dockerfile.{kind}").read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_kn_01_the_dockerfiles_start_python_without_a_shell_and_not_as_root(kind: str) -> None:
    found = dockerfile(kind)
    last = found[max(i for i, (name, _) in enumerate(found) if name == "FROM") :]
    words = {name: json.loads(value) for name, value in last if name in ("ENTRYPOINT", "CMD")}
    assert words == {"ENTRYPOINT": ["faas"], "CMD": ["serve", "--bundle", BUNDLE]}
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", dict(last)["USER"])


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_dockerfiles_and_the_image_without_a_daemon_run_the_same(kind: str) -> None:
    found = dict(dockerfile(kind))
    env = dict(word.split("=", 1) for word in shlex.split(found["ENV"]))
    settings = compose(scratch(Platform()), [], runtime_image.changes({})).image
    ours = settings.environment
    usual = scratch(Platform()).environment["PATH"]
    assert env.pop("PATH").replace("${PATH}", usual) == ours["PATH"]
    assert {name: env[name] for name in ours if name != "PATH"} == {k: v for k, v in ours.items() if k != "PATH"}
    assert {name for name in env if name not in ours} == (
        {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"} if kind == "cuda" else set()
    )
    assert found["USER"] == settings.settings["User"]
    assert f"{found['EXPOSE']}/tcp" in settings.settings["ExposedPorts"]


@pytest.mark.slow
@registry_server.needed
def test_a_functions_image_has_what_the_runtime_lacks_and_the_bundle(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = tmp_path / "house"
    only_from(monkeypatch, house)
    write_wheel(house, "here", "1.0")
    write_wheel(house, "new", "2.0", requires=["here"])
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "function.pkl").write_bytes(b"pickle")
    changes = runtime_image.changes({"here": "1.0"})
    base = append(SCRATCH, f"{registry.host}/runtime:1", changes=changes, connection=CONNECTION)
    runtime = inspect(base.image, connection=CONNECTION)[1]
    assert runtime_image.provided_by(runtime) == {"here": "1.0"}

    def layers_for(requirement: str) -> list[Layer]:
        lock = runtime_image.lock([requirement], runtime, cache=tmp_path / "cache")
        return runtime_image.layers_of_function(bundle, lock, runtime, cache=tmp_path / "cache")

    layers = layers_for("new")
    assert [one.created_by for one in layers] == [f"faas: 1 packages in {LIBRARIES}", f"faas: the bundle in {BUNDLE}"]
    assert layers_for("here") == layers[1:]
    pushed = append(base.image, f"{registry.host}/function:1", layers, connection=CONNECTION)
    assert [one.way for one in pushed.transfers] == ["sent", "sent", "sent"]


@registry_server.needed
def test_a_base_with_another_python_is_refused(registry: Registry, tmp_path: Path) -> None:
    to = f"{registry.host}/python:old"
    append(SCRATCH, to, changes=Changes(env={"PYTHON_VERSION": "3.9.1"}), connection=CONNECTION)
    with pytest.raises(WrongPlatform, match=r"has Python 3\.9\.1, this is"):
        runtime_image.push(to, f"{registry.host}/runtime:1", Recipe(), cache=tmp_path, connection=CONNECTION)


@registry_server.needed
def test_a_base_with_another_c_library_is_refused(registry: Registry, tmp_path: Path) -> None:
    to, cache = f"{registry.host}/python:alpine", LayerCache(tmp_path / "layers")
    made = cache.of_files([File("/a", b"a")], created_by="RUN /bin/sh -c set -eux; apk add --no-cache tzdata")
    append(SCRATCH, to, [made], connection=CONNECTION)
    with pytest.raises(WrongPlatform, match=r"is made of Alpine Linux.*take one of Debian"):
        runtime_image.push(to, f"{registry.host}/runtime:1", Recipe(), cache=tmp_path, connection=CONNECTION)


@registry_server.needed
def test_a_function_cannot_have_what_the_framework_cannot_run_with(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = tmp_path / "house"
    only_from(monkeypatch, house)
    for version in ("0.1", "99.0"):
        write_wheel(house, "msgspec", version)
        write_wheel(house, "torch", version)
    base = append(
        SCRATCH,
        f"{registry.host}/runtime:2",
        changes=runtime_image.changes({"msgspec": "0.20", "torch": "2.8"}),
        connection=CONNECTION,
    )
    runtime = inspect(base.image, connection=CONNECTION)[1]
    with pytest.raises(WheelsError, match=r"contradict each other: .*msgspec==0\.1, but the constraints say msgspec>="):
        runtime_image.lock(["msgspec==0.1"], runtime, cache=tmp_path / "cache")
    lock = runtime_image.lock(["msgspec", "torch==0.1"], runtime, cache=tmp_path / "cache")
    assert lock.versions == {"msgspec": "99.0", "torch": "0.1"}, "what it can do without is the function's business"


def test_a_root_is_taken_as_a_folder_or_as_a_tar(tmp_path: Path) -> None:
    import tarfile

    root, cache = tmp_path / "root", LayerCache(tmp_path / "cache")
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("tool")
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(root, arcname=".")
    assert runtime_image.of_rootfs(root, cache) == runtime_image.of_rootfs(root, cache)
    packed = runtime_image.of_rootfs(tmp_path / "root.tar", cache)
    with tarfile.open(packed.path) as tar:
        assert "./bin/tool" in tar.getnames()


def test_labels_that_make_no_sense_are_no_packages() -> None:
    for text in ("{", "[]", ""):
        changes = Changes(labels={runtime_image.PACKAGES_LABEL: text})
        assert runtime_image.provided_by(compose(scratch(Platform()), [], changes).image) == {}


def test_the_images_python_is_this_one() -> None:
    assert Recipe().target.python == f"{sys.version_info.major}.{sys.version_info.minor}"
