"""A description that exists can be deployed; every other one says which option, which value and what instead."""

from typing import Any

import pytest

from deploy import InvalidSpec, Probes, Resources, Scaling, SecretRef, ServiceSpec, SnapshotVolume, Timeouts


def spec_with(**options: Any) -> ServiceSpec:
    return ServiceSpec(**{"name": "hello", "image": "ghcr.io/acme/hello:1", **options})


def check_refused(make: Any, options: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        make(**options)
    assert caught.value.option == option
    assert caught.value.remedy
    assert str(caught.value).startswith(f"{option}={caught.value.value!r} ")


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"min_instances": 5, "max_instances": 2}, "min_instances"),
        ({"max_instances": ""}, "max_instances"),
        ({"min_instances": -1}, "min_instances"),
        ({"min_instances": True}, "min_instances"),
        ({"max_instances": 2.0}, "max_instances"),
        ({"target_inputs": "10%"}, "target_inputs"),
        ({"target_inputs": 0}, "target_inputs"),
        ({"target_inputs": float("nan")}, "target_inputs"),
        ({"target_inputs": True}, "target_inputs"),
        ({"target_inputs": 9, "max_inputs": 8}, "target_inputs"),
        ({"activation_scale": 0}, "activation_scale"),
        ({"activation_scale": 4}, "activation_scale"),
        ({"activation_scale": 2, "min_instances": 3}, "activation_scale"),
        ({"scaledown_window_s": -1}, "scaledown_window_s"),
        ({"scaledown_window_s": 3661}, "scaledown_window_s"),
        ({"scaledown_window_s": float("inf")}, "scaledown_window_s"),
        ({"scale_down_delay_s": 3601}, "scale_down_delay_s"),
        ({"max_inputs": 2**31}, "max_inputs"),
    ],
)
def test_kn_03_scaling_is_refused_here_and_not_in_the_cluster(options: dict[str, Any], option: str) -> None:
    check_refused(Scaling, options, f"scaling.{option}")


def test_scaling_at_its_edges() -> None:
    Scaling(min_instances=3, max_instances=3, activation_scale=1)
    Scaling(min_instances=7, max_instances=0, activation_scale=9)
    Scaling(target_inputs=500, max_inputs=0)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"num_gpus": 0.5}, "num_gpus"),
        ({"num_gpus": -1}, "num_gpus"),
        ({"num_gpus": "1Gi"}, "num_gpus"),
        ({"memory": "4gb"}, "memory"),
        ({"cpu": "0"}, "cpu"),
        ({"gpu_resource": "gpu"}, "gpu_resource"),
        ({"gpu_kind": "L4"}, "gpu_kind"),
        ({"gpu_kind": "", "num_gpus": 1}, "gpu_kind"),
        ({"gpu_kind": "NVIDIA L4", "num_gpus": 1}, "gpu_kind"),
        ({"gpu_kind_label": "a b/c"}, "gpu_kind_label"),
    ],
)
def test_kn_10_resources_that_no_pod_can_have(options: dict[str, Any], option: str) -> None:
    check_refused(Resources, options, f"resources.{option}")


@pytest.mark.parametrize(
    ("make", "options", "option"),
    [
        (Timeouts, {"timeout_s": 0}, "timeouts.timeout_s"),
        (Timeouts, {"startup_timeout_s": "300"}, "timeouts.startup_timeout_s"),
        (Timeouts, {"grace_period_s": -1}, "timeouts.grace_period_s"),
        (Probes, {"ready_path": "readyz"}, "probes.ready_path"),
        (Probes, {"live_path": "/"}, "probes.live_path"),
        (Probes, {"live_path": "/readyz"}, "probes.live_path"),
        (SecretRef, {"name": "My_Secret"}, "secrets.name"),
        (SecretRef, {"name": "hub", "key": "token"}, "secrets.env"),
        (SecretRef, {"name": "hub", "env": "TOKEN"}, "secrets.env"),
        (SecretRef, {"name": "hub", "key": "token", "env": "PORT"}, "secrets.env"),
        (SecretRef, {"name": "hub", "key": "a/b", "env": "TOKEN"}, "secrets.key"),
        (SnapshotVolume, {"kind": "nfs", "source": "x"}, "snapshot.kind"),
        (SnapshotVolume, {"kind": "hostPath", "source": "cache"}, "snapshot.source"),
        (SnapshotVolume, {"kind": "hostPath", "source": "/a/../b"}, "snapshot.source"),
        (SnapshotVolume, {"kind": "pvc", "source": "Models"}, "snapshot.source"),
        (SnapshotVolume, {"kind": "image", "source": "ghcr.io/a"}, "snapshot.source"),
        (SnapshotVolume, {"kind": "emptyDir", "source": "/models"}, "snapshot.source"),
        (SnapshotVolume, {"kind": "pvc", "source": "m", "mount_path": "/dev"}, "snapshot.mount_path"),
        (SnapshotVolume, {"kind": "pvc", "source": "m", "mount_path": "/"}, "snapshot.mount_path"),
        (SnapshotVolume, {"kind": "pvc", "source": "m", "sub_path": "../x"}, "snapshot.sub_path"),
        (SnapshotVolume, {"kind": "hostPath", "source": "/m", "sub_path": "x"}, "snapshot.sub_path"),
        (SnapshotVolume, {"kind": "pvc", "source": "m", "size_limit": "1Gi"}, "snapshot.size_limit"),
        (SnapshotVolume, {"kind": "emptyDir", "source": "s3://b/p", "size_limit": "1gb"}, "snapshot.size_limit"),
    ],
)
def test_parts_are_checked_when_they_are_made(make: Any, options: dict[str, Any], option: str) -> None:
    check_refused(make, options, option)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"name": "日本"}, "name"),
        ({"namespace": "Team"}, "namespace"),
        ({"command": "python -m app"}, "command"),
        ({"args": ["--port", 8000]}, "args"),
        ({"env": {"A": 1}}, "env['A']"),
        ({"env": {"A-B": "1"}}, "env['A-B']"),
        ({"env": {"K_SERVICE": "x"}}, "env['K_SERVICE']"),
        ({"env": {"FAAS_SNAPSHOT_DIR": "/x"}}, "env['FAAS_SNAPSHOT_DIR']"),
        ({"env": {"T": "1"}, "secrets": (SecretRef(name="s", key="t", env="T"),)}, "secrets.env"),
        ({"secrets": (SecretRef(name="s", key="t", env="T"), SecretRef(name="r", key="t", env="T"))}, "secrets.env"),
        ({"secrets": ("hub-token",)}, "secrets"),
        ({"port": 9090}, "port"),
        ({"port": 0}, "port"),
        ({"port": "8000"}, "port"),
        ({"labels": {"bad key": "x"}}, "labels"),
        ({"labels": {"team": "a b"}}, "labels['team']"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "labels['app.kubernetes.io/name']"),
        ({"labels": {"serving.knative.dev/service": "x"}}, "labels['serving.knative.dev/service']"),
        ({"annotations": {"a/b/c": "x"}}, "annotations"),
        ({"annotations": {"autoscaling.knative.dev/minScale": "1"}}, "annotations['autoscaling.knative.dev/minScale']"),
        ({"annotations": {"autoscaling.knative.dev/target": "1"}}, "annotations['autoscaling.knative.dev/target']"),
        (
            {"annotations": {"serving.knative.dev/progress-deadline": "1s"}},
            "annotations['serving.knative.dev/progress-deadline']",
        ),
        ({"annotations": {"example.com/n": 1}}, "annotations['example.com/n']"),
        ({"service_account": "A B"}, "service_account"),
        ({"run_as_user": 0}, "run_as_user"),
        ({"scratch_path": "tmp"}, "scratch_path"),
        ({"scratch_path": "/dev"}, "scratch_path"),
        ({"scratch_path": "/"}, "scratch_path"),
        ({"scratch_path": "/s", "snapshot": SnapshotVolume(kind="pvc", source="m", mount_path="/s")}, "scratch_path"),
    ],
)
def test_a_service_is_checked_when_it_is_made(options: dict[str, Any], option: str) -> None:
    check_refused(spec_with, options, option)


@pytest.mark.parametrize(
    "image",
    [
        "hello", "acme/hello:1.0_x", "ghcr.io/acme/hello", "localhost/hello", "localhost:5000/hello:latest",
        "registry:5000/ab@sha256:" + "a" * 64, "ghcr.io/acme/hello:1@sha256:" + "0" * 64, "dev.local/my_app",
    ],
)  # fmt: skip
def test_references_of_images(image: str) -> None:
    assert spec_with(image=image).image == image


@pytest.mark.parametrize(
    "image",
    [
        "",
        "a",
        "ghcr.io/a",
        "ghcr.io/acme/Hello",
        "hello:",
        "hello:-x",
        "hello:a b",
        "hello@sha256:12",
        "hello@",
        "a b/c",
        "https://ghcr.io/acme/hello",
        "ghcr.io:port/acme/hello",
    ],
)
def test_what_is_not_a_reference_of_an_image(image: str) -> None:
    check_refused(spec_with, {"image": image}, "image")


def test_a_description_does_not_change_with_what_it_was_made_of() -> None:
    env, command = {"A": "1"}, ["python"]
    spec = spec_with(env=env, command=command, labels=env)
    env["A"] = "2"
    command.append("-c")
    assert (spec.env, spec.labels, spec.command) == ({"A": "1"}, {"A": "1"}, ("python",))
    assert spec == spec_with(env={"A": "1"}, command=("python",), labels={"A": "1"})


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(InvalidSpec) as caught:
        spec_with(image="A" * 5000)
    assert len(str(caught.value)) < 400
    assert caught.value.value == "A" * 5000
