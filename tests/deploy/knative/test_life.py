"""After a deploy: listing, describing, traffic, scale, deletion."""

import dataclasses
import json
from collections.abc import Callable

import pytest

from deploy import InvalidSpec
from deploy.errors import ClusterError, Conflict, Missing, NotOurs
from deploy.knative import Cluster, routing
from deploy.knative.rest import Rest
from deploy.rollback import Limits
from deploy.traffic import EVERYTHING_LATEST, Share, parse

from .answers import stale
from .api_server import ApiServer, always
from .given import deployed, document, scaled


def test_services_are_ours_with_their_instances(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    deployed(cluster, "1", name="My_Model")
    foreign = {"metadata": {"name": "other", "namespace": "default"}, "spec": {}}
    api.do(lambda state: state.store.put("services", foreign))
    first, second = cluster.services()
    assert (first.name, first.namespace, first.ready, first.num_instances) == ("hello", "default", True, 1)
    assert first.image == "ghcr.io/acme/hello:1"
    assert second.name == "My_Model"
    assert second.label.startswith("my-model-")
    assert cluster.services(all_namespaces=True) == [first, second]
    assert api.called("list", "services")[-1].namespace is None


def test_describe_tells_all_and_is_plain_values(cluster: Cluster) -> None:
    revisions = deployed(cluster, "1", "2")
    cluster.set_traffic("hello", parse([f"{revisions[0]}=90", "latest=10:candidate"]))
    cluster.wait_ready("hello", timeout_s=20, generation=3)
    detail = cluster.describe("hello")
    newest, older = detail.revisions
    assert (newest.name, newest.number, newest.percent, newest.tags) == (revisions[1], 2, 10, ("candidate",))
    assert (older.name, older.percent, older.ready, older.num_instances) == (revisions[0], 90, True, 1)
    assert (newest.max_instances, newest.concurrency) == (3, 2)
    assert detail.traffic == (Share(revisions[0], 90), Share(None, 10, "candidate"))
    assert [url.tag for url in detail.urls] == [None, "candidate"]
    assert detail.urls[1].url == "http://candidate-hello.default.example.com"
    assert {condition.kind for condition in detail.conditions} == {"Ready", "ConfigurationsReady", "RoutesReady"}
    assert [instance.revision for instance in detail.instances] == revisions
    assert detail.instances[0].node == "node-1"
    assert [revision.ready for revision in detail.revisions] == [True, True]
    assert json.loads(json.dumps(dataclasses.asdict(detail)))["service"]["name"] == "hello"


def test_a_service_that_is_not_there(cluster: Cluster) -> None:
    actions: list[Callable[[], object]] = [
        lambda: cluster.describe("absent"),
        lambda: cluster.scale("absent", min_instances=1),
        lambda: cluster.promote("absent"),
        lambda: cluster.rollback("absent"),
        lambda: cluster.delete("absent"),
        lambda: cluster.logs("absent"),
        lambda: next(cluster.follow_logs("absent")),
        lambda: cluster.watch_canary("absent", limits=Limits()),
    ]
    for action in actions:
        with pytest.raises(Missing, match=r"there is no service absent in default; see .* faas list"):
            action()


def test_a_service_of_another_namespace_is_not_deployed_by_mistake(cluster: Cluster) -> None:
    with pytest.raises(InvalidSpec, match="namespace='team-a' is not the cluster's, which is default"):
        cluster.apply(document(namespace="team-a"))


def test_traffic_stays_over_a_deploy(cluster: Cluster) -> None:
    (first,) = deployed(cluster, "1")
    cluster.set_traffic("hello", (Share(first, 100),))
    applied = cluster.apply(document(tag="2"))
    assert applied.overridden == ()
    ready = cluster.wait_ready("hello", timeout_s=20, generation=applied.generation)
    assert not ready.receives_traffic
    assert cluster.describe("hello").traffic == (Share(first, 100),)
    assert cluster.promote("hello") == EVERYTHING_LATEST


def test_traffic_for_a_revision_there_is_not_is_refused_here(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    with pytest.raises(InvalidSpec, match="'hello-00009' is not a revision of this service; it has hello-00001"):
        cluster.set_traffic("hello", (Share("hello-00009", 100),))
    assert len(api.called("patch", "services")) == 2  # the deploy's own two


def test_a_tag_of_a_revision_that_is_gone_goes_with_the_next_change(api: ApiServer, cluster: Cluster) -> None:
    first, second, third = deployed(cluster, "1", "2", "3")
    cluster.set_traffic("hello", (Share(third, 100), Share(first, 0, "old"), Share(second, 0, "kept")))
    api.do(lambda state: state.store.remove("revisions", "default", first))
    assert cluster.promote("hello") == (Share(None, 100), Share(second, 0, "kept"))
    with pytest.raises(InvalidSpec, match=f"'{first}' is not a revision of this service"):
        cluster.set_traffic("hello", (Share(None, 100), Share(first, 0, "old")))


def test_scale_makes_a_revision_with_the_bounds_and_nothing_where_they_are_so(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    generation = cluster.scale("hello", min_instances=1, max_instances=5)
    ready = cluster.wait_ready("hello", timeout_s=20, generation=generation)
    assert (generation, ready.revision) == (2, "hello-00002")
    newest = cluster.describe("hello").revisions[0]
    assert (newest.min_instances, newest.max_instances) == (1, 5)
    assert cluster.scale("hello", min_instances=1) == 2
    with pytest.raises(InvalidSpec, match=r"scaling\.min_instances=6 is above max_instances=5"):
        cluster.scale("hello", min_instances=6)
    for wrong in (-1, True, "2"):
        with pytest.raises(InvalidSpec, match=r"scaling\.max_instances"):
            cluster.scale("hello", max_instances=wrong)  # type: ignore[arg-type]
    # What the function says is what a deploy says, and who had said otherwise is named.
    applied = cluster.apply(document())
    assert {found.manager for found in applied.overridden} == {"faas-scale"}


def test_scale_keeps_what_knative_would_refuse_out(cluster: Cluster) -> None:
    applied = cluster.apply(scaled(0, 0))
    cluster.wait_ready("hello", timeout_s=20, generation=applied.generation)
    assert cluster.scale("hello", min_instances=2) == 2


def test_a_storm_of_conflicts_on_traffic_ends(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.do(lambda state: state.faults.append(always(stale("services", "hello"), verb="patch", resource="services")))
    patch = {"spec": {"traffic": [{"revisionName": "hello-00001", "percent": 100}]}}
    with pytest.raises(Conflict):
        routing.change(rest, "default", "hello", lambda _: patch, manager="m", wait=lambda _: None)
    assert len(api.called("patch", "services")) == 2 + 8


def test_delete_waits_until_all_is_gone(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1", "2")
    api.controller.holds_deletion_s = 0.2
    cluster.delete("hello")
    assert cluster.services() == []
    assert api.do(lambda state: [key for key in state.store.objects if key[0] in ("pods", "revisions")]) == []
    (call,) = api.called("delete", "services")
    assert json.loads(call.body)["propagationPolicy"] == "Foreground"


def test_delete_that_hangs_says_what_holds_it(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.controller.holds_deletion_s = 60
    with pytest.raises(ClusterError, match=r"still being deleted after 0.3 s"):
        cluster.delete("hello", timeout_s=0.3)


def test_what_is_not_ours_is_not_deleted_scaled_or_routed(api: ApiServer, cluster: Cluster) -> None:
    foreign = {"metadata": {"name": "other", "namespace": "default"}, "spec": {"template": {"spec": {}}}}
    api.do(lambda state: state.store.put("services", foreign))
    with pytest.raises(NotOurs):
        cluster.delete("other")
    with pytest.raises(NotOurs):
        cluster.scale("other", min_instances=1)
    with pytest.raises(NotOurs):
        cluster.promote("other")
