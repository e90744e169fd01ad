"""The mapping onto Knative: golden files, the rules of the webhook, and the field's cases."""

import builtins
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deploy import InvalidSpec, MissingLibrary, Probes, Resources, Scaling, ServiceSpec, SnapshotVolume, Timeouts
from deploy.advice import feature_flags
from deploy.manifest import service, to_yaml
from faas.server.probes import HOLD_S

from .examples import EXAMPLES
from .properties import unhurried
from .webhook import refusals

GOLDEN = Path(__file__).parent / "golden"
SCALING = "autoscaling.knative.dev/"


def spec_with(**options: Any) -> ServiceSpec:
    return ServiceSpec(**{"name": "hello", "image": "ghcr.io/acme/hello:1", **options})


def revision(spec: ServiceSpec) -> dict[str, Any]:
    found: dict[str, Any] = service(spec)["spec"]["template"]["spec"]
    return found


def container(spec: ServiceSpec) -> dict[str, Any]:
    (found,) = revision(spec)["containers"]
    return dict(found)


def autoscaling(scaling: Scaling) -> dict[str, str]:
    annotations = service(spec_with(scaling=scaling))["spec"]["template"]["metadata"]["annotations"]
    return {key.removeprefix(SCALING): value for key, value in annotations.items() if key.startswith(SCALING)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden(name: str) -> None:
    assert to_yaml(service(EXAMPLES[name])) == (GOLDEN / f"{name}.yaml").read_text()


def test_every_golden_file_has_an_example() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_yaml_reads_back_as_the_document(name: str) -> None:
    document = service(EXAMPLES[name])
    assert yaml.safe_load(to_yaml(document)) == document


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_webhook_takes_every_example_where_the_operator_has_done_what_we_ask(name: str) -> None:
    spec = EXAMPLES[name]
    document = service(spec)
    longest = spec.timeouts.revision_s
    assert refusals(document, flags=feature_flags(spec), max_timeout_s=max(600, longest)) == []
    if feature_flags(spec):
        assert len(refusals(document, max_timeout_s=max(600, longest))) == len(feature_flags(spec))


seconds = st.floats(min_value=1, max_value=250, allow_nan=False)


@st.composite
def scalings(draw: st.DrawFn) -> Scaling:
    least = draw(st.integers(min_value=0, max_value=20))
    most = draw(st.one_of(st.just(0), st.integers(min_value=max(least, 1), max_value=1000)))
    start = draw(st.one_of(st.just(1), st.integers(min_value=max(least, 1), max_value=most or 1000)))
    limit = draw(st.integers(min_value=0, max_value=1000))
    return Scaling(
        min_instances=least,
        max_instances=most,
        activation_scale=start,
        max_inputs=limit,
        target_inputs=draw(st.floats(min_value=0.01, max_value=limit or 1e6)),
        scaledown_window_s=draw(st.floats(min_value=0, max_value=3660)),
        scale_down_delay_s=draw(st.floats(min_value=0, max_value=3600)),
    )


@unhurried
@given(
    scaling=scalings(),
    timeouts=st.builds(Timeouts, timeout_s=seconds, startup_timeout_s=seconds, grace_period_s=seconds),
    env=st.dictionaries(st.from_regex(r"[A-Z]{3,8}_X", fullmatch=True), st.text(st.characters(codec="utf-8"))),
    num_gpus=st.integers(min_value=0, max_value=8),
)
def test_whatever_a_description_accepts_the_webhook_accepts(
    scaling: Scaling, timeouts: Timeouts, env: dict[str, str], num_gpus: int
) -> None:
    spec = spec_with(scaling=scaling, timeouts=timeouts, env=env, resources=Resources(num_gpus=num_gpus))
    assert refusals(service(spec)) == []


@unhurried
@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])))
def test_yaml_keeps_text_text(text: str) -> None:
    document = to_yaml({"value": text})
    assert yaml.safe_load(document) == {"value": text}


@pytest.mark.parametrize("text", ["1e3", "1_0", "0o7", ".5", "y", "N", "~", "12", "-1", "true", "off", "", "1:30"])
def test_yaml_quotes_what_some_reader_takes_for_something_else(text: str) -> None:
    assert to_yaml({"value": text}) == f"value: '{text}'\n"


def test_kn_03_scale_options_are_text_on_the_template_only() -> None:
    document = service(spec_with(scaling=Scaling(min_instances=0, max_instances=3, target_inputs=10, max_inputs=20)))
    assert not [key for key in document["metadata"]["annotations"] if key.startswith(SCALING)]
    annotations = document["spec"]["template"]["metadata"]["annotations"]
    assert (annotations[f"{SCALING}min-scale"], annotations[f"{SCALING}max-scale"]) == ("0", "3")
    assert annotations[f"{SCALING}target"] == "10"
    assert all(isinstance(value, str) for value in annotations.values())


def test_a_full_batch_on_one_instance_is_exactly_the_target() -> None:
    values = autoscaling(Scaling(target_inputs=32, max_inputs=64))
    assert values["target"] == "32"
    assert values["target-utilization-percentage"] == "100"
    assert values["target-burst-capacity"] == "-1"
    assert values["metric"] == "concurrency"


def test_requests_a_second_are_the_metric_where_a_target_of_them_is_given() -> None:
    values = autoscaling(Scaling(target_inputs=32, max_inputs=64, target_rps=12.5))
    assert (values["metric"], values["target"]) == ("rps", "12.5")
    with pytest.raises(InvalidSpec, match="target_rps"):
        Scaling(target_rps=0)


@pytest.mark.parametrize(
    ("scaledown_s", "window", "retention"),
    [
        (0, "6s", "0s"),
        (6, "6s", "0s"),
        (45.2, "46s", "0s"),
        (60, "60s", "0s"),
        (300, "60s", "240s"),
        (3660, "60s", "3600s"),
    ],
)
def test_the_scaledown_window_is_a_window_and_then_a_retention(scaledown_s: float, window: str, retention: str) -> None:
    values = autoscaling(Scaling(scaledown_window_s=scaledown_s))
    assert (values["window"], values["scale-to-zero-pod-retention-period"]) == (window, retention)


def test_activation_scale_of_one_is_not_said_since_knative_refuses_it() -> None:
    assert "activation-scale" not in autoscaling(Scaling(activation_scale=1))
    assert autoscaling(Scaling(activation_scale=2))["activation-scale"] == "2"


def test_kn_06_a_load_of_ten_minutes_fits_the_startup_probe_and_the_deadline_after_it() -> None:
    spec = spec_with(timeouts=Timeouts(startup_timeout_s=600))
    probe = container(spec)["startupProbe"]
    budget_s = probe.get("initialDelaySeconds", 0) + probe["periodSeconds"] * probe["failureThreshold"]
    deadline = service(spec)["spec"]["template"]["metadata"]["annotations"]["serving.knative.dev/progress-deadline"]
    assert budget_s >= 600
    assert deadline == "660s"
    assert probe["httpGet"] == {"path": "/livez", "port": 8000}


def test_without_a_startup_probe_liveness_waits_for_the_startup_timeout() -> None:
    bare = container(spec_with(timeouts=Timeouts(startup_timeout_s=20.5), probes=Probes(startup=False)))
    assert "startupProbe" not in bare
    assert bare["livenessProbe"]["initialDelaySeconds"] == 21


def test_liveness_is_not_readiness() -> None:
    probes = container(spec_with(port=9000))
    assert probes["livenessProbe"]["httpGet"] == {"path": "/livez", "port": 9000}
    assert probes["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 9000}


@pytest.mark.parametrize("startup", [True, False])
def test_readiness_is_looked_for_every_second(startup: bool) -> None:
    probe = container(spec_with(probes=Probes(startup=startup)))["readinessProbe"]
    assert (probe["periodSeconds"], probe["timeoutSeconds"]) == (1, 1)
    assert probe["timeoutSeconds"] > HOLD_S, "an instance holds its answer back for so long"


@pytest.mark.parametrize(
    ("scaling", "expected"), [(Scaling(), 2), (Scaling(max_inputs=0), 0), (Scaling(max_inputs=8), 8)]
)
def test_kn_07_container_concurrency_is_what_an_instance_takes(scaling: Scaling, expected: int) -> None:
    assert revision(spec_with(scaling=scaling))["containerConcurrency"] == expected


def test_a_request_at_zero_has_time_for_the_start_and_a_stop_for_the_drain() -> None:
    cold = revision(spec_with(timeouts=Timeouts(timeout_s=60, startup_timeout_s=300, grace_period_s=30)))
    assert (cold["timeoutSeconds"], cold["responseStartTimeoutSeconds"]) == (360, 360)
    stopping = revision(spec_with(timeouts=Timeouts(timeout_s=1, startup_timeout_s=5.5, grace_period_s=30)))
    assert (stopping["timeoutSeconds"], stopping["responseStartTimeoutSeconds"]) == (60, 7)


def test_kn_10_gpus_are_whole_and_in_limits_alone() -> None:
    gpu = container(spec_with(resources=Resources(num_gpus=1)))["resources"]
    assert gpu["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in gpu["requests"]
    assert container(spec_with())["resources"]["limits"].keys() == {"cpu", "memory"}
    amd = container(spec_with(resources=Resources(num_gpus=2, gpu_resource="amd.com/gpu")))["resources"]["limits"]
    assert amd["amd.com/gpu"] == "2"


def test_k8_05_one_spelling_in_every_field() -> None:
    spec = spec_with(name="My_Model")
    document = service(spec)
    assert document["metadata"]["name"] == spec.label
    assert document["metadata"]["annotations"]["faas/name"] == "My_Model"
    for metadata in (document["metadata"], document["spec"]["template"]["metadata"]):
        assert metadata["labels"]["app.kubernetes.io/name"] == spec.label
    assert "name" not in document["spec"]["template"]["metadata"]  # a fixed one would be refused on the next change


def test_dollars_reach_the_process_as_written() -> None:
    spec = spec_with(command=["run", "$A"], args=["$$"], env={"P": "a$$b", "Q": "$(P)"})
    assert container(spec)["command"] == ["run", "$$A"]
    assert container(spec)["args"] == ["$$$$"]
    assert [entry["value"] for entry in container(spec)["env"]] == ["a$$$$b", "$$(P)"]


def test_instances_run_under_the_restricted_profile() -> None:
    assert container(spec_with(scratch_path=None))["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(spec_with(run_as_user=1000))["securityContext"]["runAsUser"] == 1000
    assert revision(spec_with())["automountServiceAccountToken"] is False
    assert "automountServiceAccountToken" not in revision(spec_with(service_account="embed"))


@pytest.mark.parametrize(
    ("snapshot", "source"),
    [
        (
            SnapshotVolume(kind="hostPath", source="/var/lib/faas"),
            {"hostPath": {"path": "/var/lib/faas", "type": "DirectoryOrCreate"}},
        ),
        (SnapshotVolume(kind="pvc", source="c"), {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}),
        (SnapshotVolume(kind="image", source="ghcr.io/a/snap"), {"image": {"reference": "ghcr.io/a/snap"}}),
        (SnapshotVolume(kind="emptyDir", source="s3://b/p"), {"emptyDir": {}}),
    ],
    ids=lambda value: value.kind if isinstance(value, SnapshotVolume) else "",
)
def test_a_snapshot_is_mounted_and_the_process_is_told_where(snapshot: SnapshotVolume, source: dict[str, Any]) -> None:
    spec = spec_with(snapshot=snapshot, scratch_path=None)
    assert revision(spec)["volumes"] == [{"name": "snapshot", **source}]
    env = {entry["name"]: entry["value"] for entry in container(spec)["env"]}
    fetched = {"FAAS_SNAPSHOT_URI": "s3://b/p"} if snapshot.kind == "emptyDir" else {}
    assert env == {"FAAS_SNAPSHOT_DIR": "/snapshot", **fetched}
    (mount,) = container(spec)["volumeMounts"]
    assert mount.get("readOnly", False) is (snapshot.kind != "emptyDir")


def test_the_root_is_read_only_and_there_is_a_place_to_write() -> None:
    assert container(spec_with())["securityContext"]["readOnlyRootFilesystem"] is True
    assert revision(spec_with())["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert container(spec_with())["volumeMounts"] == [{"name": "scratch", "mountPath": "/tmp"}]
    snapshot = SnapshotVolume(kind="pvc", source="c")
    mounts = container(spec_with(snapshot=snapshot, scratch_path="/scratch"))["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/scratch", "/snapshot"]
    writable = spec_with(scratch_path=None)
    assert "volumes" not in revision(writable)
    assert "volumeMounts" not in container(writable)


def test_annotations_go_where_knative_reads_them() -> None:
    document = service(EXAMPLES["snapshot_image"])
    assert document["metadata"]["annotations"].keys() == {
        "networking.knative.dev/disable-external-domain-tls",
        "faas/name",
    }
    template = document["spec"]["template"]["metadata"]["annotations"]
    assert template["example.com/owner"] == "Zoë"
    assert template[f"{SCALING}initial-scale"] == "2"


def test_one_description_one_document() -> None:
    spec = EXAMPLES["secrets_and_literals"]
    again = dataclasses.replace(spec, env={name: spec.env[name] for name in reversed(list(spec.env))})
    assert to_yaml(service(spec)) == to_yaml(service(again))
    first = service(spec)
    first["spec"]["template"]["metadata"]["labels"]["changed"] = "yes"
    assert "changed" not in service(spec)["metadata"]["labels"]
    assert "changed" not in first["metadata"]["labels"]


def test_yaml_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingLibrary, match=r"pip install 'faas\[knative\]'"):
        to_yaml({})


def test_importing_the_package_loads_no_client_and_no_framework() -> None:
    program = (
        "import sys, deploy, deploy.manifest, deploy.advice, deploy.doctor, deploy.knative\n"
        "print(sorted({'yaml', 'kubernetes', 'faas', 'snapshot', 'warmpool', 'loadgen'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
