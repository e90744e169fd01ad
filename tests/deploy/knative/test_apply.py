"""Create or change: K8-04, KN-02, refusals, and fields that others hold."""

import json
import threading
from typing import Any

import pytest

from deploy import Scaling, ServiceSpec, SnapshotVolume, Timeouts
from deploy.errors import ClusterError, Conflict, NotOurs, NotReady, Refused, Unavailable
from deploy.knative import Cluster
from deploy.knative.apply import Overridden, apply
from deploy.knative.rest import Rest
from deploy.knative.retrying import MAX_TRIES
from deploy.knative.waiting import wait_ready
from deploy.manifest import service

from .admission import defaulted
from .answers import Answer, stale
from .api_server import ApiServer, Call, always, once
from .fields import Owners, leaves
from .given import deployed, document

PATH = "/apis/serving.knative.dev/v1/namespaces/default/services/hello"


def no_wait(_: float) -> None:
    """Tests need no pause between tries."""


def live(api: ApiServer) -> dict[str, Any]:
    found: dict[str, Any] = api.do(lambda state: state.store.get("services", "default", "hello"))
    return found


def writes(api: ApiServer) -> list[Call]:
    return [call for call in api.called("patch", "services") if "dryRun" not in call.query]


def edit(rest: Rest, patch: dict[str, Any], manager: str = "kubectl-edit") -> None:
    rest.merge(PATH, patch, {"fieldManager": manager})


def test_k8_04_a_missing_service_is_created_and_an_equal_one_left_alone(api: ApiServer, cluster: Cluster) -> None:
    created = cluster.apply(document())
    assert (created.action, created.name, created.generation) == ("created", "hello", 1)
    (write,) = writes(api)
    assert write.query == {"fieldManager": "faas"}
    assert write.headers["content-type"] == "application/apply-patch+yaml"
    cluster.wait_ready("hello", timeout_s=20)
    again = cluster.apply(document())
    assert (again.action, again.generation) == ("unchanged", 1)
    assert len(writes(api)) == 1
    changed = cluster.apply(document(tag="2"))
    assert (changed.action, changed.generation) == ("changed", 2)
    assert live(api)["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":2")


def test_kn_02_an_unchanged_redeploy_makes_no_revision(api: ApiServer, cluster: Cluster) -> None:
    assert deployed(cluster, "1", "1", "2", "2") == ["hello-00001", "hello-00001", "hello-00002", "hello-00002"]
    assert [revision.name for revision in cluster.describe("hello").revisions] == ["hello-00002", "hello-00001"]


def test_kn_02_what_failed_is_tried_anew_by_the_same_deploy(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    """What it failed of may not be in it: a secret that was missing, a server that was down."""
    api.controller.behaviours["ghcr.io/acme/hello:1"] = "crash"
    for generation in (1, 2):
        assert cluster.apply(document()).generation == generation
        with pytest.raises(NotReady):
            wait_ready(rest, "default", "hello", timeout_s=20, generation=generation, settle_s=0.05)
    assert cluster.apply(document(), dry_run=True).action == "changed"
    api.controller.behaviours.clear()
    assert deployed(cluster, "1", "1", "2", "2") == ["hello-00003", "hello-00003", "hello-00004", "hello-00004"]
    assert cluster.apply(document(tag="2")).action == "unchanged"


def test_a_dry_run_changes_nothing(api: ApiServer, cluster: Cluster) -> None:
    assert cluster.apply(document(), dry_run=True).action == "created"
    assert live(api) is None
    cluster.apply(document())
    planned = cluster.apply(document(tag="2"), dry_run=True)
    assert (planned.action, planned.generation) == ("changed", 2)
    assert live(api)["metadata"]["generation"] == 1


def test_k8_04_a_conflict_is_read_anew_and_tried_again(api: ApiServer, rest: Rest) -> None:
    apply(rest, document())
    touched: list[str] = []

    def touch(call: Call) -> Answer | None:
        """Two other writers are faster: the object changes between our reading and our writing."""
        if call.verb == "patch" and "dryRun" not in call.query and len(touched) < 2:
            found = api.state.store.get("services", "default", "hello")
            assert found is not None
            found["metadata"]["labels"] |= {"touched": str(len(touched))}
            touched.append(api.state.store.put("services", found)["metadata"]["resourceVersion"])
        return None

    api.do(lambda state: state.faults.append(touch))
    assert apply(rest, document(tag="2"), wait=no_wait).action == "changed"
    sent = [json.loads(call.body)["metadata"]["resourceVersion"] for call in writes(api)[1:]]
    assert len(sent) == len(set(sent)) == 3
    assert live(api)["metadata"]["labels"]["touched"] == "1"


def test_k8_04_somebody_else_creates_it_first(api: ApiServer, rest: Rest) -> None:
    exists = Answer(409, 'services "hello" already exists', reason="AlreadyExists")
    api.do(lambda state: state.faults.append(once(exists, verb="patch", resource="services")))
    assert apply(rest, document(), wait=no_wait).action == "created"
    assert len(api.called("get", "services")) == 2


def test_k8_04_what_another_tool_makes_meanwhile_is_not_taken_over(api: ApiServer, rest: Rest) -> None:
    other = document(tag="other")
    other["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "argo"}

    def make(call: Call) -> None:
        """It makes the service after we have looked for one, and before we write."""
        if call.verb == "patch" and api.state.store.get("services", "default", "hello") is None:
            made = api.state.store.put("services", defaulted(other, None))
            api.state.store.owners["services", "default", "hello"] = Owners({"argo": set(leaves(other))})
            assert made["metadata"]["generation"] == 1

    api.do(lambda state: state.faults.append(make))
    with pytest.raises(NotOurs, match="made by argo"):
        apply(rest, document(), wait=no_wait)
    assert live(api)["metadata"]["generation"] == 1


def test_k8_04_a_storm_of_conflicts_ends(api: ApiServer, rest: Rest) -> None:
    apply(rest, document())
    api.do(lambda state: state.faults.append(always(stale("services", "hello"), verb="patch", resource="services")))
    with pytest.raises(Conflict, match=r"during each of 8 tries.*--show-managed-fields") as raised:
        apply(rest, document(tag="2"), wait=no_wait)
    assert raised.value.status == 409
    assert len(api.called("get", "services")) == 9


def test_k8_04_a_service_that_is_being_deleted_is_awaited(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    cluster.apply(document())
    api.controller.holds_deletion_s = 0.3
    rest.delete(PATH, {"propagationPolicy": "Foreground"})
    assert cluster.apply(document(tag="2")).action == "created"
    assert cluster.wait_ready("hello", timeout_s=20).revision == "hello-00001"


def test_k8_04_a_deletion_that_never_ends_is_said_so(api: ApiServer, rest: Rest) -> None:
    apply(rest, document())
    api.controller.holds_deletion_s = 60
    rest.delete(PATH, {"propagationPolicy": "Foreground"})
    with pytest.raises(ClusterError, match=r"still being deleted after .*finalizers"):
        apply(rest, document(), deletion_timeout_s=0.3)


def test_k8_04_a_webhook_or_a_server_that_is_away_for_a_moment_is_asked_again(api: ApiServer, rest: Rest) -> None:
    away = Answer(500, 'failed calling webhook "webhook.serving.knative.dev": connect: connection refused')
    other = Answer(503, "not ready"), Answer(500, "etcdserver: leader changed")
    api.do(lambda state: state.faults.append(once(away, *other, verb="patch", resource="services")))
    assert apply(rest, document(), wait=no_wait).action == "created"
    api.do(lambda state: state.faults.append(always(away, verb="patch", resource="services")))
    tries = len(api.called("patch", "services"))
    with pytest.raises(Unavailable, match="kubectl get pods -n knative-serving"):
        apply(rest, document(tag="2"), wait=no_wait)
    assert len(api.called("patch", "services")) == tries + MAX_TRIES


def test_kn_02_a_fixed_revision_name_goes_with_the_first_change(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    deployed(cluster, "1")
    edit(rest, {"spec": {"template": {"metadata": {"name": "hello-abcde-1"}}}})
    cluster.wait_ready("hello", timeout_s=20, generation=2)
    assert cluster.apply(document()).action == "unchanged"
    assert len(cluster.describe("hello").revisions) == 2
    changed = cluster.apply(document(tag="2"))
    assert changed.action == "changed"
    assert not live(api)["spec"]["template"]["metadata"]["name"]
    assert cluster.wait_ready("hello", timeout_s=20, generation=changed.generation).revision == "hello-00003"
    assert cluster.apply(document(tag="2")).action == "unchanged"


def test_kn_02_what_others_wrote_beside_it_stays(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    deployed(cluster, "1")
    edit(rest, {"metadata": {"labels": {"cost-centre": "7"}, "annotations": {"note": "keep"}}}, "kubectl-label")
    edit(rest, {"spec": {"template": {"metadata": {"annotations": {"autoscaling.knative.dev/initial-scale": "2"}}}}})
    applied = cluster.apply(document(tag="2"))
    assert applied.overridden == ()
    found = live(api)
    assert found["metadata"]["labels"]["cost-centre"] == "7"
    assert found["metadata"]["annotations"]["note"] == "keep"
    assert found["spec"]["template"]["metadata"]["annotations"]["autoscaling.knative.dev/initial-scale"] == "2"


def test_a_field_of_ours_that_another_set_is_set_again_and_named(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    deployed(cluster, "1")
    key = "autoscaling.knative.dev/max-scale"
    edit(rest, {"spec": {"template": {"metadata": {"annotations": {key: "9"}}}}})
    applied = cluster.apply(document())
    assert applied.action == "changed"
    assert applied.overridden == (Overridden("kubectl-edit", f".spec.template.metadata.annotations.{key}"),)
    assert live(api)["spec"]["template"]["metadata"]["annotations"][key] == "3"
    forced = [call.query.get("force") for call in api.called("patch", "services")[-3:]]
    assert forced == [None, "true", "true"]


def test_a_field_we_no_longer_write_goes(api: ApiServer, cluster: Cluster) -> None:
    cluster.apply(document(labels={"team": "vision"}))
    cluster.apply(document())
    assert "team" not in live(api)["metadata"]["labels"]


def test_a_service_of_another_tool_is_not_touched_unless_told_so(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    foreign = service(ServiceSpec(name="hello", image="ghcr.io/acme/other:1"))
    foreign["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "helm"}
    rest.apply(PATH, foreign, {"fieldManager": "helm"})
    with pytest.raises(NotOurs, match=r"was made by helm.*kubectl label ksvc hello"):
        cluster.apply(document())
    assert live(api)["metadata"]["generation"] == 1
    taken = cluster.apply(document(), take_over=True)
    assert {found.manager for found in taken.overridden} == {"helm"}
    assert live(api)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "faas"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            {"snapshot": SnapshotVolume(kind="hostPath", source="/var/lib/faas")},
            ("kubernetes.podspec-volumes-hostpath is off", "kubectl patch configmap config-features"),
        ),
        (
            {"timeouts": Timeouts(timeout_s=900)},
            ("allows a request 600 s", "asks for 1200 s", "max-revision-timeout-seconds to 1200"),
        ),
    ],
)
def test_a_refusal_names_the_flag_or_field_and_what_an_operator_runs(
    api: ApiServer, cluster: Cluster, options: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(Refused) as raised:
        cluster.apply(document(**options))
    assert [part for part in parts if part not in str(raised.value)] == []
    assert live(api) is None
    assert writes(api) == []  # the dry run was enough


def test_with_the_flag_on_it_is_taken(api: ApiServer, cluster: Cluster) -> None:
    api.do(lambda state: setattr(state, "flags", ("kubernetes.podspec-volumes-hostpath",)))
    snapshot = SnapshotVolume(kind="hostPath", source="/var/lib/faas")
    assert cluster.apply(document(snapshot=snapshot)).action == "created"


def test_the_schema_has_its_say(cluster: Cluster) -> None:
    wrong = document()
    wrong["spec"]["template"]["spec"]["timeoutSeconds"] = "60"
    with pytest.raises(Refused, match=r"timeoutSeconds: must be int") as raised:
        cluster.apply(wrong)
    assert raised.value.status == 500  # which the real one answers too


def test_two_deploys_at_once_both_succeed(cluster: Cluster) -> None:
    cluster.apply(document())
    results: list[str] = []

    def run(tag: str) -> None:
        results.append(cluster.apply(document(tag=tag)).action)

    threads = [threading.Thread(target=run, args=(tag,)) for tag in ("2", "3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert results == ["changed", "changed"]


def test_kn_03_bounds_of_scaling_are_text_on_the_template(api: ApiServer, cluster: Cluster) -> None:
    cluster.apply(document(scaling=Scaling(min_instances=1, max_instances=4)))
    found = live(api)
    assert found["spec"]["template"]["metadata"]["annotations"]["autoscaling.knative.dev/min-scale"] == "1"
    assert not [key for key in found["metadata"]["annotations"] if key.startswith("autoscaling")]
