"""What goes where: to a real registry and a real S3 server, and only what is lacking there."""

from __future__ import annotations

import dataclasses
import platform
import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

import snapshot
from deploy.image import SCRATCH, Changes, Platform, append, inspect
from deploy.image.errors import BadImage, WrongPlatform
from deploy.wheels import Lock
from faas import bundle
from faas.bundle.fetching import fetch
from faas.bundle.manifest import SNAPSHOT, File
from faas.deployment import published, runtime_image
from faas.deployment.plan import BUNDLE, Places, Shipping
from faas.deployment.published import check_machine, missing, planned, publish
from faas.description import Description
from faas.errors import SettingError
from faas.preparation import Origin, Preparation
from snapshot import LocalStore
from snapshot.pins import Pins
from snapshot.s3_store import S3Store
from tests import registry_server
from tests.deployment.given import CONNECTION, VERSION, bundled, means, packed, push_base
from tests.registry_server import Registry

DESCRIPTION = Description(
    name="embed", target="app.py:Embed", module="app", endpoints=(), batched=False, target_inputs=1, max_inputs=2,
    max_queue=20, min_instances=0, max_instances=3, buffer_instances=0, activation_scale=1, scaledown_window_s=60.0,
    timeout_s=60.0, startup_timeout_s=300.0, grace_period_s=30.0, cpu=1.0, memory_bytes=1 << 31, env={},
)  # fmt: skip


def frozen(folder: Path) -> Preparation:
    """Return the preparation of a function whose state is in a store in `folder`."""
    snapshot.freeze({"weights": [1.0, 2.0]}, folder / "made")
    store = LocalStore(folder / "store")
    kept = store.publish("embed", folder / "made")
    return Preparation(
        description=DESCRIPTION,
        origin=Origin(python=platform.python_version(), sources={}, distributions={}),
        siblings=("embed",),
        imports=(),
        snapshot=str(store.folder(kept)),
        digest=kept.digest,
        state_bytes=16,
    )


@registry_server.needed
def test_an_image_has_the_bundle_and_a_second_push_sends_nothing(registry: Registry, tmp_path: Path) -> None:
    repository = f"{registry.host}/first"
    base = push_base(repository)
    made = packed(tmp_path / "b", Places(repository=repository))
    assert planned(made).image == f"{repository}/embed:{made.revision}"
    first = publish(made, means(tmp_path))
    assert first.code.image.startswith(f"{repository}/embed@sha256:")
    assert first.code.bundle == BUNDLE
    assert first.sent_bytes > 0
    again = publish(made, means(tmp_path))
    assert (again.code, again.sent_bytes) == (first.code, 0)
    image = inspect(first.code.image, connection=CONNECTION)[1]
    assert len(image.manifest.layers) == len(inspect(base, connection=CONNECTION)[1].manifest.layers) + 1


@registry_server.needed
def test_only_what_changed_is_sent(registry: Registry, tmp_path: Path) -> None:
    """The tensors of a state are a layer by themselves, so that a change of the code does not send them again."""
    repository = f"{registry.host}/second"
    push_base(repository)
    sizes = []
    for number in (1, 2):
        made = packed(tmp_path / str(number), Places(repository=repository), f"x = {number}\n")
        state = made.folder / SNAPSHOT
        state.mkdir()
        (state / "0123").write_bytes(bytes(range(256)) * 4096)
        (state / "manifest.json").write_text(str(number))
        layers = runtime_image.layers_of_function(
            made.folder, Lock(()), inspect(made.plan.base, connection=CONNECTION)[1], cache=tmp_path / "cache"
        )
        sizes.append([layer.digest for layer in layers])
        publish(made, means(tmp_path))
    (tensors, code), (same, other) = sizes
    assert tensors == same
    assert code != other


@registry_server.needed
def test_a_runtime_image_that_is_not_there_is_said_with_how_to_make_it(registry: Registry, tmp_path: Path) -> None:
    repository = f"{registry.host}/third"
    made = packed(tmp_path / "b", Places(repository=repository))
    with pytest.raises(BadImage) as caught:
        publish(made, means(tmp_path))
    assert caught.value.problem == f"the runtime image {repository}/faas-runtime:{VERSION} is not there"
    assert f"--to {repository}/faas-runtime:{VERSION}" in caught.value.remedy


@registry_server.needed
def test_cp_02_a_runtime_image_with_another_python_is_refused_before_anything_is_sent(
    registry: Registry, tmp_path: Path
) -> None:
    name = f"{registry.host}/old/runtime:1"
    append(SCRATCH, name, changes=Changes(labels={runtime_image.PYTHON_LABEL: "3.9"}), connection=CONNECTION)
    made = packed(tmp_path / "b", Places(repository=f"{registry.host}/old", base=name))
    ours = ".".join(platform.python_version_tuple()[:2])
    with pytest.raises(WrongPlatform, match=rf"has Python 3\.9, and embed is packed with {ours}"):
        publish(made, means(tmp_path))


@registry_server.needed
def test_compiled_modules_for_another_machine_are_refused_before_anything_is_sent(
    registry: Registry, tmp_path: Path
) -> None:
    name = f"{registry.host}/machine/runtime:1"
    append(SCRATCH, name, changes=runtime_image.changes({}), platform=Platform("linux", "arm64"), connection=CONNECTION)
    made = packed(tmp_path / "b", Places(repository=f"{registry.host}/machine", base=name))
    for machine, is_taken in (("aarch64-linux-gnu", True), ("x86_64-linux-gnu", False), ("darwin", False)):
        file = File("0", 1)
        bundle = msgspec.structs.replace(made.bundle, files={f"code/fast.cpython-311-{machine}.so": file})
        runtime = inspect(name, connection=CONNECTION)[1]
        with (
            nullcontext() if is_taken else pytest.raises(WrongPlatform, match=f"compiled for {machine}, and .* is for")
        ):
            check_machine(bundle, runtime, name)


@registry_server.needed
def test_a_function_is_for_the_machines_that_its_runtime_image_is_for(registry: Registry, tmp_path: Path) -> None:
    """A cluster of arm64 nodes, deployed to from wherever."""
    base = f"{registry.host}/arm/runtime:1"
    append(SCRATCH, base, changes=runtime_image.changes({}), platform=Platform("linux", "arm64"), connection=CONNECTION)
    made = publish(packed(tmp_path / "b", Places(repository=f"{registry.host}/arm", base=base)), means(tmp_path))
    assert inspect(made.code.image, connection=CONNECTION)[1].config["architecture"] == "arm64"


@registry_server.needed
def test_a_runtime_image_with_another_version_of_ours_is_noted(registry: Registry, tmp_path: Path) -> None:
    push_base(f"{registry.host}/older", {"faas": "0.0.1"})
    (note,) = publish(packed(tmp_path / "b", Places(repository=f"{registry.host}/older")), means(tmp_path)).notes
    assert note.startswith("the runtime image has faas 0.0.1, this is ")


def test_a_bundle_goes_to_the_store_once_and_can_be_served_from_there(s3: str, tmp_path: Path) -> None:
    made = packed(tmp_path / "b", Places(store=f"{s3}/here", base="registry.test/base:1"))
    first = publish(made, means(tmp_path))
    assert first.code == planned(made)
    assert first.code.image == "registry.test/base:1"
    assert "which image registry.test/base:1 is at present was not found out" in first.notes[0]
    assert first.code.bundle == f"{s3}/here/.bundles/embed/{made.bundle.digest}.tar"
    assert first.sent_bytes > 0
    assert publish(made, means(tmp_path)).sent_bytes == 0
    fetched = bundle.read(fetch(first.code.bundle, tmp_path / "fetched"), here=False)
    assert fetched.digest == made.bundle.digest


@registry_server.needed
def test_a_runtime_image_that_is_pushed_anew_by_its_name_is_another(
    registry: Registry, s3: str, tmp_path: Path
) -> None:
    """Knative looks a tag up when it makes a revision, and makes none where the manifest has not changed."""
    images = []
    for version in ("1", "2", "2"):
        base = push_base(f"{registry.host}/anew", {"numpy": version})
        found = publish(packed(tmp_path / "b", Places(store=f"{s3}/anew", base=base)), means(tmp_path))
        assert found.notes == ()
        images.append(found.code.image)
    assert images[0] != images[1] == images[2]
    assert all(image.startswith(f"{registry.host}/anew/faas-runtime@sha256:") for image in images)
    pinned = packed(tmp_path / "b", Places(store=f"{s3}/anew", base=images[0]))
    assert publish(pinned, means(tmp_path)).code.image == images[0]


def test_a_state_goes_to_the_store_once(s3: str, tmp_path: Path) -> None:
    made = packed(tmp_path / "b", Places(store=f"{s3}/state", base="registry.test/base:1"))
    made = dataclasses.replace(
        made, preparation=frozen(tmp_path), plan=dataclasses.replace(made.plan, shipping=Shipping(kind="s3"))
    )
    said: list[str] = []
    first = publish(made, means(tmp_path, said.append))
    assert said[0] == f"pushing the snapshot of embed to {s3}/state"
    assert first.sent_bytes > 16
    assert S3Store(f"{s3}/state").find("embed").digest == made.digest
    said.clear()
    assert publish(made, means(tmp_path, said.append)).sent_bytes == 0
    assert said == []
    assert Pins(f"{s3}/state").read() == {}
    cached = dataclasses.replace(made, plan=dataclasses.replace(made.plan, shipping=Shipping(kind="node-cache")))
    publish(cached, means(tmp_path))
    assert Pins(f"{s3}/state").read() == {"embed": made.digest}, "the caches of nodes fetch what is pinned"


def test_requirements_that_each_start_installs_are_noted(s3: str, tmp_path: Path) -> None:
    made = packed(tmp_path / "b", Places(store=f"{s3}/notes", base="a/b"), requirements=["tqdm"])
    assert "installs tqdm when it starts" in publish(made, means(tmp_path)).notes[-1]


@registry_server.needed
def test_packages_that_nobody_brings_are_noted(registry: Registry, tmp_path: Path) -> None:
    base = push_base(f"{registry.host}/fourth", {"numpy": "2.0", "Some-Thing": "1"})
    runtime = inspect(base, connection=CONNECTION)[1]
    plain = bundled(tmp_path)
    uses = msgspec.structs.replace(plain, libraries={"numpy": "2.0", "some_thing": "1", "torch": "2.5"})
    (note,) = missing(uses, runtime, {})
    assert 'imports torch, which the runtime image does not have: write requirements=["torch==2.5"]' in note
    asking = msgspec.structs.replace(uses, requirements=("tqdm>=4",))
    (note,) = missing(asking, runtime, {"tqdm": "4.1"})
    assert 'write requirements=["tqdm>=4", "torch==2.5"]' in note
    assert missing(asking, runtime, {"tqdm": "4.1", "torch": "2.5"}) == []
    silent = push_base(f"{registry.host}/fifth")
    assert missing(uses, inspect(silent, connection=CONNECTION)[1], {}) == []


def test_without_boto3_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "snapshot.s3_client", None)
    with pytest.raises(SettingError, match=r"pip install 'faas\[s3\]'"):
        published.client_of("s3://bucket")
