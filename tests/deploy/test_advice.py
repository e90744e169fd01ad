"""Warnings: what a cluster at its default settings refuses or does otherwise, each with the setting to change."""

from typing import Any

import pytest

from deploy import Resources, Scaling, ServiceSpec, SnapshotVolume, Timeouts
from deploy.advice import feature_flags, warnings


def spec_with(**options: Any) -> ServiceSpec:
    return ServiceSpec(**{"name": "hello", "image": "ghcr.io/acme/hello:1", **options})


def test_what_every_cluster_takes_has_no_warning() -> None:
    assert warnings(spec_with()) == ()
    fetched = SnapshotVolume(kind="emptyDir", source="s3://b/p")
    at_the_cap = Timeouts(timeout_s=300, startup_timeout_s=300)
    assert warnings(spec_with(resources=Resources(num_gpus=1), snapshot=fetched, timeouts=at_the_cap)) == ()


def test_what_limits_itself_is_not_warned_of_having_no_limit() -> None:
    assert warnings(spec_with(scaling=Scaling(max_inputs=0)), limits_itself=True) == ()


def test_kn_09_a_timeout_over_the_cap_names_the_setting() -> None:
    (warning,) = warnings(spec_with(timeouts=Timeouts(timeout_s=900, startup_timeout_s=1)))
    for part in ("timeout_s=900", "901 s", "600 s", "max-revision-timeout-seconds", "config-defaults"):
        assert part in warning


def test_a_long_grace_period_meets_the_same_cap() -> None:
    (warning,) = warnings(spec_with(timeouts=Timeouts(grace_period_s=571)))
    assert "grace_period_s=571" in warning
    assert "601 s" in warning


@pytest.mark.parametrize(
    ("scaling", "parts"),
    [
        (Scaling(max_inputs=0), ("scaling.max_inputs=0", "batch size")),
        (Scaling(max_inputs=1001), ("scaling.max_inputs=1001", "container-concurrency-max-limit")),
        (Scaling(max_instances=0), ("scaling.max_instances=0", "bill")),
        (Scaling(scaledown_window_s=5), ("scaling.scaledown_window_s=5", "6 s")),
    ],
)
def test_kn_07_and_other_scaling_that_surprises(scaling: Scaling, parts: tuple[str, ...]) -> None:
    (warning,) = warnings(spec_with(scaling=scaling))
    assert [part for part in parts if part not in warning] == []


def test_kn_10_five_hundred_cores_are_doubted() -> None:
    (warning,) = warnings(spec_with(resources=Resources(cpu="500")))
    assert "'500m'" in warning
    assert warnings(spec_with(resources=Resources(cpu="500m"))) == ()
    assert warnings(spec_with(resources=Resources(cpu=128))) == ()


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"snapshot": SnapshotVolume(kind="hostPath", source="/c")}, "kubernetes.podspec-volumes-hostpath"),
        ({"snapshot": SnapshotVolume(kind="pvc", source="c")}, "kubernetes.podspec-persistent-volume-claim"),
        ({"snapshot": SnapshotVolume(kind="image", source="acme/s")}, "kubernetes.podspec-volumes-image"),
        ({"resources": Resources(num_gpus=1, gpu_kind="L4")}, "kubernetes.podspec-affinity"),
    ],
)
def test_a_field_behind_a_flag_comes_with_the_command_of_the_operator(options: dict[str, Any], flag: str) -> None:
    spec = spec_with(**options)
    assert feature_flags(spec) == (flag,)
    (warning,) = warnings(spec)
    assert f'-p \'{{"data":{{"{flag}":"enabled"}}}}\'' in warning
