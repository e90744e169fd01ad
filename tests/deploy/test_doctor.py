"""Findings of the doctor, each with a remedy, from facts alone."""

from typing import Any

import pytest

from deploy import Resources, Scaling, ServiceSpec, SnapshotVolume, Timeouts
from deploy.doctor import Facts, Node, Quota, Reach, coherence, examine

HOST = "https://10.0.0.1"
NODE = Node(
    "n1", True, {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"},
    {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/cuda.driver-version.full": "570.86.15"},
)  # fmt: skip


def facts(**known: Any) -> Facts:
    return Facts(host=HOST, version="v1.36.0", has_serving=True, has_ingress=True, **known)


def spec(**options: Any) -> ServiceSpec:
    return ServiceSpec(**{"name": "hello", "image": "ghcr.io/acme/hello:1", **options})


def found(known: Facts, check: str, **options: Any) -> tuple[str, str]:
    (finding,) = [f for f in examine(known, spec(**options)) if f.check == check]
    assert finding.level == "ok" or finding.remedy
    return finding.level, f"{finding.what}; {finding.remedy}"


def test_nothing_more_is_said_of_a_cluster_that_does_not_answer() -> None:
    (finding,) = examine(Facts(host=HOST, problem="no route"), spec())
    assert (finding.level, finding.what) == ("error", "no route")


def test_without_a_service_only_the_cluster_is_looked_at() -> None:
    assert [f.check for f in examine(facts(skew_s=0.4, ingress_class="kourier"))] == [
        "cluster",
        "knative",
        "ingress",
        "clock",
    ]


@pytest.mark.parametrize(
    ("scaling", "batch_size", "level", "part"),
    [
        (Scaling(target_inputs=32, max_inputs=64), 32, "ok", "fit"),
        (Scaling(target_inputs=16, max_inputs=16), 32, "error", "no batch ever fills"),
        (Scaling(target_inputs=32, max_inputs=40), 32, "warning", "max_inputs=64"),
        (Scaling(target_inputs=50, max_inputs=64), 32, "warning", "target_inputs=32"),
        (Scaling(target_inputs=8, max_inputs=64), 32, "note", "target_inputs=32"),
        (Scaling(target_inputs=8, max_inputs=0), 32, "warning", "max_inputs=64"),
    ],
)
def test_coherence_of_batch_concurrency_and_target(scaling: Scaling, batch_size: int, level: str, part: str) -> None:
    (finding,) = coherence(scaling, batch_size)
    assert finding.level == level
    assert part in f"{finding.what} {finding.remedy}"
    assert coherence(scaling, None) == []


def test_flags_from_the_config_map() -> None:
    snapshot = SnapshotVolume(kind="pvc", source="models")
    flag = "kubernetes.podspec-persistent-volume-claim"
    assert found(facts(features={}), "features", snapshot=snapshot)[0] == "error"
    assert f'"{flag}":"enabled"' in found(facts(features={flag: "disabled"}), "features", snapshot=snapshot)[1]
    assert found(facts(features={flag: "Allowed"}), "features", snapshot=snapshot)[0] == "ok"
    assert found(facts(), "features", snapshot=snapshot)[0] == "note"
    assert found(facts(was_tried=True), "dry run", snapshot=snapshot)[0] == "ok"
    assert found(facts(was_tried=True, refusal="no"), "dry run")[0] == "error"


def test_kn_09_timeouts_against_the_clusters_own_cap() -> None:
    long = Timeouts(timeout_s=900, startup_timeout_s=100)
    assert found(facts(), "timeouts", timeouts=long)[0] == "warning"
    level, text = found(facts(defaults={}), "timeouts", timeouts=long)
    assert level == "error"
    assert "max-revision-timeout-seconds to 1000" in text
    assert found(facts(defaults={"max-revision-timeout-seconds": "1000"}), "timeouts", timeouts=long)[0] == "ok"


def test_limits_of_concurrency() -> None:
    assert found(facts(defaults={}), "concurrency", scaling=Scaling(max_inputs=2000))[0] == "error"
    zero = Scaling(max_inputs=0)
    assert (
        found(facts(defaults={"allow-container-concurrency-zero": "false"}), "concurrency", scaling=zero)[0] == "error"
    )


@pytest.mark.parametrize(
    ("nodes", "resources", "check", "level", "part"),
    [
        ([NODE], Resources(num_gpus=1), "gpu", "ok", "driver 570.86.15"),
        ([NODE], Resources(num_gpus=1, gpu_kind="L4"), "gpu", "ok", "1 nodes"),
        ([NODE], Resources(num_gpus=1, gpu_kind="A100"), "gpu", "error", "is NVIDIA-L4"),
        ([NODE], Resources(num_gpus=4), "gpu", "error", "no node has 4"),
        ([NODE], Resources(num_gpus=1, gpu_resource="amd.com/gpu"), "gpu", "error", "device plugin"),
        ([NODE], Resources(cpu=8), "capacity", "error", "cpu=8"),
        ([NODE], Resources(memory="64Gi"), "capacity", "error", "memory=64Gi"),
        ([NODE], Resources(), "capacity", "ok", "1 of 1"),
        ([], Resources(), "capacity", "error", "no node is ready"),
        ([Node("n", False, {}, {})], Resources(), "capacity", "error", "no node is ready"),
    ],
)
def test_capacity(nodes: list[Node], resources: Resources, check: str, level: str, part: str) -> None:
    seen = found(facts(nodes=tuple(nodes)), check, resources=resources)
    assert seen[0] == level
    assert part in seen[1]


def test_nodes_that_may_not_be_listed() -> None:
    assert found(facts(), "capacity", resources=Resources(num_gpus=1))[0] == "note"
    assert not [f for f in examine(facts(), spec()) if f.check == "capacity"]


def test_quotas_with_room_full_and_too_small() -> None:
    def quota(hard: str, used: str, resource: str = "requests.memory") -> Facts:
        return facts(quotas=(Quota("team", resource, hard, used),))

    assert not [f for f in examine(quota("8Gi", "4Gi"), spec()) if f.check == "quota"]
    assert found(quota("8Gi", "7Gi"), "quota")[0] == "warning"
    assert found(quota("1Gi", "0"), "quota")[0] == "error"
    assert found(quota("1", "1", "requests.nvidia.com/gpu"), "quota", resources=Resources(num_gpus=1))[0] == "warning"
    assert not [f for f in examine(quota("1", "1", "requests.nvidia.com/gpu"), spec()) if f.check == "quota"]
    assert not [f for f in examine(quota("1", "1", "count/secrets"), spec()) if f.check == "quota"]


def test_reach_clock_and_ingress() -> None:
    known = facts(reaches=(Reach("the bucket", False, "403"),), skew_s=-200.0)
    assert found(known, "reach")[0] == "error"
    assert found(known, "clock")[0] == "warning"
    told = facts(reaches=(Reach("registry.test/a", False, "no TLS", "say --insecure"),))
    assert found(told, "reach") == ("error", "registry.test/a cannot be reached: no TLS; say --insecure")
    none = Facts(host=HOST, has_serving=True, has_ingress=False)
    assert found(none, "ingress")[0] == "error"
