from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy import InvalidSpec, SecretRef, ServiceSpec, manifest
from faas.deployment import described
from faas.deployment.described import Code, Surroundings
from faas.deployment.plan import NODE_CACHE, Places, Plan, Shipping, plan
from faas.errors import SettingError
from faas.spec import Batching, Calls, Resources, Scaling, Snapshot
from tests.deployment.given import VERSION, bundled

CODE = Code(image="registry.test/team/embed@sha256:" + "0" * 64)
PLACES = Places(repository="registry.test/team", store="s3://bucket/here")


def planned(kind: str = "none", places: Places = PLACES) -> Plan:
    how = Shipping(kind=kind, source={"pvc": "models", "oci": "registry.test/models:1"}.get(kind))  # type: ignore[arg-type]
    return plan(places, "embed", how, base=None, version=VERSION)


def spec_of(
    folder: Path, how: Plan | None = None, around: Surroundings | None = None, code: Code = CODE, **options: Any
) -> ServiceSpec:
    made = bundled(folder, **options)
    return described.service_spec(
        made, "abcd1234", code, how or planned(), around=around or Surroundings(), digest="f" * 64
    )


def test_numbers_and_names_are_the_functions(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path,
        resources=Resources(gpu="A100:2", cpu=1.5, memory="8Gi"),
        scaling=Scaling(min_instances=1, max_instances=7, scaledown_window_s=90, activation_scale=2),
        calls=Calls(timeout_s=20, startup_timeout_s=100, grace_period_s=10),
        env={"MODEL": "small"},
        secrets=["hub", "TOKEN=other/token"],
    )
    assert (spec.name, spec.image, spec.label) == ("embed", CODE.image, "embed")
    assert [*spec.command, *spec.args] == ["faas", "serve", "--bundle", "/opt/faas/bundle"]
    assert (spec.resources.cpu, spec.resources.memory, spec.resources.num_gpus) == ("1500m", "8Gi", 2)
    assert spec.resources.gpu_kind == "A100"
    scaling = spec.scaling
    assert (scaling.target_inputs, scaling.max_inputs) == (8, 16)
    assert (scaling.min_instances, scaling.max_instances, scaling.activation_scale) == (1, 7, 2)
    assert scaling.scaledown_window_s == 90
    assert (spec.timeouts.timeout_s, spec.timeouts.startup_timeout_s, spec.timeouts.grace_period_s) == (20, 100, 10)
    assert spec.env["MODEL"] == "small"
    assert spec.secrets == (SecretRef(name="hub"), SecretRef(name="other", key="token", env="TOKEN"))
    assert spec.labels == {"faas/revision": "abcd1234"}


@pytest.mark.parametrize(
    ("gpu", "num", "kind"),
    [(None, 0, None), ("0", 0, None), ("1", 1, None), ("3", 3, None), ("L4", 1, "L4"), ("H100:8", 8, "H100")],
)
def test_kn_10_gpus_are_counted_and_their_kind_is_kept(
    tmp_path: Path, gpu: str | None, num: int, kind: str | None
) -> None:
    found = spec_of(tmp_path, resources=Resources(gpu=gpu)).resources
    assert (found.num_gpus, found.gpu_kind) == (num, kind)


def test_threads_are_those_of_the_cpu_unless_the_function_says(tmp_path: Path) -> None:
    env = spec_of(tmp_path, resources=Resources(cpu=2.5)).env
    assert {env[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} == {"3"}
    own = spec_of(tmp_path, env={"OMP_NUM_THREADS": "1"}).env
    assert own["OMP_NUM_THREADS"] == "1"
    assert "MKL_NUM_THREADS" not in own


def test_functions_call_each_other_inside_the_cluster(tmp_path: Path) -> None:
    env = spec_of(tmp_path, around=Surroundings(namespace="team")).env
    assert env["FAAS_URL"] == "http://{name}.team.svc.cluster.local"
    assert spec_of(tmp_path, env={"FAAS_URL": "http://elsewhere"}).env["FAAS_URL"] == "http://elsewhere"


def test_what_the_deployer_says_goes_before_what_the_function_says(tmp_path: Path) -> None:
    around = Surroundings(namespace="team", env={"MODEL": "large"}, secrets=("hub", "more"), service_account="reader")
    spec = spec_of(tmp_path, around=around, env={"MODEL": "small"}, secrets=["hub"])
    assert spec.env["MODEL"] == "large"
    assert [secret.name for secret in spec.secrets] == ["hub", "more"]
    assert (spec.namespace, spec.service_account) == ("team", "reader")


@pytest.mark.parametrize(
    ("kind", "volume", "source"),
    [
        ("s3", "emptyDir", f"s3://bucket/here/embed@{'f' * 64}"),
        ("node-cache", "hostPath", NODE_CACHE),
        ("pvc", "pvc", "models"),
        ("oci", "image", "registry.test/models:1"),
    ],
)
def test_a_snapshot_comes_by_volume(tmp_path: Path, kind: str, volume: str, source: str) -> None:
    found = spec_of(tmp_path, planned(kind)).snapshot
    assert found is not None
    assert (found.kind, found.source) == (volume, source)


def test_a_snapshot_in_the_image_needs_none(tmp_path: Path) -> None:
    assert spec_of(tmp_path, planned("image")).snapshot is None


def test_only_who_reads_from_s3_is_told_where_it_is(tmp_path: Path) -> None:
    around = Surroundings(s3_places={"AWS_REGION": "here-1"})
    for how, told in ((planned(), False), (planned("image"), False), (planned("s3"), True)):
        assert ("AWS_REGION" in spec_of(tmp_path, how, around).env) is told
    store = Places(store="s3://bucket/here", base="registry.test/base")
    assert "AWS_REGION" in spec_of(tmp_path, planned(places=store), around).env
    own = spec_of(tmp_path, planned(), around, snapshot=Snapshot(uri="s3://other/embed"))
    assert "AWS_REGION" in own.env
    assert spec_of(tmp_path, planned("s3"), around, env={"AWS_REGION": "mine"}).env["AWS_REGION"] == "mine"


def test_equal_functions_are_equal_documents_and_a_change_shows(tmp_path: Path) -> None:
    first, again = manifest.service(spec_of(tmp_path / "a")), manifest.service(spec_of(tmp_path / "b"))
    assert first == again
    assert manifest.service(spec_of(tmp_path / "c", env={"X": "1"})) != first


@pytest.mark.parametrize("name", ["PORT", "FAAS_BUNDLE", "FAAS_HOME", "FAAS_SNAPSHOT_DIR", "FAAS_SNAPSHOT_URI"])
def test_what_the_deployment_sets_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} is set by the deployment itself"):
        spec_of(tmp_path, env={name: "x"})


@pytest.mark.parametrize("text", ["", "=hub/token", "TOKEN=hub", "hub/token", "TOKEN=hub/", "TOKEN=/token"])
def test_secrets_that_are_written_otherwise_are_refused(text: str) -> None:
    with pytest.raises((SettingError, InvalidSpec)):
        described.secret(text)


def test_volumes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"volumes=.* of embed: a service has no volume"):
        spec_of(tmp_path, volumes={"/data": "claim"})


def test_what_has_no_counterpart_is_noted(tmp_path: Path) -> None:
    made = bundled(tmp_path, scaling=Scaling(buffer_instances=2, keep_alive="histogram"))
    spares, learned = described.notes(made)
    assert "buffer_instances=2 does nothing there" in spares
    assert "keep_alive='histogram' does nothing" in learned
    assert described.notes(bundled(tmp_path)) == []


def test_a_wake_up_never_starts_fewer_than_there_always_are(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, scaling=Scaling(min_instances=3, max_instances=5, activation_scale=2))
    assert spec.scaling.activation_scale == 1


def test_the_batch_size_is_told(tmp_path: Path) -> None:
    assert described.batch_size(bundled(tmp_path)) is None
    assert described.batch_size(bundled(tmp_path, batching=Batching(max_batch_size=4))) == 4
