"""The facts a doctor judges, had from a cluster and its rights."""

from typing import Any

from deploy import Resources, SnapshotVolume
from deploy.doctor import Facts, Reach, examine
from deploy.knative import Cluster
from deploy.knative.facts import collect
from deploy.knative.rest import Rest

from .api_server import ApiServer
from .given import document, spec


def config(name: str, data: dict[str, str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/version": "1.19.0"}
    return {"metadata": {"name": f"config-{name}", "namespace": "knative-serving", "labels": labels}, "data": data}


def operated(api: ApiServer, *, enabled: str = "disabled") -> None:
    maps = {
        "features": {"kubernetes.podspec-volumes-hostpath": enabled, "_example": "ignored"},
        "network": {"ingress-class": "kourier.ingress.networking.knative.dev"},
        "defaults": {"max-revision-timeout-seconds": "900"},
    }
    made = [config(name, data) for name, data in maps.items()]
    api.do(lambda state: [state.store.put("configmaps", found) for found in made])
    allocatable = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
    node = {
        "metadata": {"name": "node-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    api.do(lambda state: state.store.put("nodes", node))
    quota = {
        "metadata": {"name": "team", "namespace": "default"},
        "status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "3500m"}},
    }
    api.do(lambda state: state.store.put("resourcequotas", quota))


def findings(facts: Facts, **options: Any) -> dict[str, tuple[str, str]]:
    return {found.check: (found.level, f"{found.what}; {found.remedy}") for found in examine(facts, spec(**options))}


def test_all_facts_of_a_cluster(api: ApiServer, cluster: Cluster) -> None:
    operated(api)
    snapshot = SnapshotVolume(kind="hostPath", source="/var/lib/faas")
    resources = Resources(num_gpus=1, gpu_kind="L4")
    reach = [lambda: Reach("the registry", True, "200"), lambda: Reach("the bucket", False, "403")]
    facts = cluster.facts(document(snapshot=snapshot), reach=reach)
    assert (facts.version, facts.serving_version, facts.has_serving, facts.has_ingress) == (
        "v1.36.0",
        "1.19.0",
        True,
        True,
    )
    assert facts.features == {"kubernetes.podspec-volumes-hostpath": "disabled"}
    assert facts.skew_s is not None
    assert abs(facts.skew_s) < 10
    found = findings(facts, snapshot=snapshot, resources=resources)
    assert found["features"][0] == "error"
    assert "kubectl patch configmap config-features" in found["features"][1]
    assert found["dry run"][0] == "error"
    assert found["timeouts"][0] == found["gpu"][0] == found["ingress"][0] == "ok"
    assert found["quota"][0] == "warning"
    assert "3500m is used" in found["quota"][1]
    assert found["reach"][0] == "error"
    assert found["reach"][1].startswith("the bucket cannot be reached: 403; check the address, the credentials")


def test_with_the_flag_on_and_room_all_is_well(api: ApiServer, cluster: Cluster) -> None:
    operated(api, enabled="Enabled")
    api.do(lambda state: setattr(state, "flags", ("kubernetes.podspec-volumes-hostpath",)))
    options: dict[str, Any] = {
        "snapshot": SnapshotVolume(kind="hostPath", source="/var/lib/faas"),
        "resources": Resources(cpu="500m"),
    }
    found = examine(cluster.facts(document(**options)), spec(**options), batch_size=1)
    assert {finding.level for finding in found} == {"ok"}
    assert [finding.check for finding in found if finding.check == "dry run"]


def test_rights_that_are_missing_are_notes_and_not_guesses(api: ApiServer, rest: Rest) -> None:
    forbidden = {("list", "nodes"), ("list", "resourcequotas"), ("get", "configmaps"), ("patch", "services")}
    api.do(lambda state: state.forbidden.update(forbidden))
    resources = Resources(num_gpus=1, gpu_kind="L4")
    facts = collect(rest, document(resources=resources))
    assert {facts.features, facts.nodes, facts.quotas, facts.defaults, facts.refusal} == {None}
    assert not facts.was_tried
    found = findings(facts, resources=resources)
    assert found["rights"][0] == "error"
    assert "services is forbidden" in found["rights"][1]
    assert "bind the Role that docs/knative.md lists" in found["rights"][1]
    assert found["features"][0] == found["capacity"][0] == "note"
    assert "kubernetes.podspec-affinity" in found["features"][1]


def test_who_may_not_even_list_is_told_though_the_cluster_answers(api: ApiServer, rest: Rest) -> None:
    api.do(lambda state: state.forbidden.add(("list", "services")))
    found = findings(collect(rest))
    assert (found["cluster"][0], found["rights"][0]) == ("ok", "error")


def test_no_knative_and_no_cluster(api: ApiServer, rest: Rest) -> None:
    api.do(lambda state: setattr(state, "apis", ()))
    facts = collect(rest)
    assert (facts.has_serving, facts.has_ingress) == (False, False)
    assert findings(facts)["knative"][0] == "error"
    rest.connection.configuration.host = "http://127.0.0.1:1"
    object.__setattr__(rest.connection, "host", "http://127.0.0.1:1")
    (finding,) = examine(collect(rest), spec())
    assert (finding.level, finding.check) == ("error", "cluster")
    assert "cannot be reached" in finding.what


def test_a_clock_that_is_wrong_is_noticed(rest: Rest) -> None:
    facts = collect(rest, now=lambda: 0.0)
    assert facts.skew_s is not None
    assert facts.skew_s < -1e9
    assert findings(facts)["clock"][0] == "warning"
