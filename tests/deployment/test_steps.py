"""A deployment from a packed function to a ready service, against a real registry and the stand-in for a cluster.

With each thing that can fail made to fail: what was there before goes on, and the error says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.errors import Conflict, InvalidSpec, NotReady, Refused
from deploy.image.errors import ImageError
from deploy.knative import Cluster
from deploy.traffic import Share
from faas.deployment import steps
from faas.deployment.described import Surroundings
from faas.deployment.packed import Packed
from faas.deployment.plan import Places
from faas.deployment.rollout import Rollout
from faas.deployment.steps import Deployed
from faas.spec import Calls
from tests import registry_server
from tests.deploy.knative.answers import Answer, stale
from tests.deploy.knative.api_server import ApiServer, always, once
from tests.deployment.given import means, packed, push_base
from tests.registry_server import Proxy, Registry, Seen

pytestmark = registry_server.needed


class Deployer:
    """Deploys versions of one function into a repository."""

    def __init__(self, cluster: Cluster, repository: str, folder: Path) -> None:
        self.cluster, self.repository, self.folder = cluster, repository, folder
        self.said: list[str] = []
        push_base(repository)

    def packed(self, number: int, **spec: Any) -> Packed:
        place = self.folder / f"bundle-{number}"
        return packed(place, Places(repository=self.repository), f"x = {number}\n", **spec)

    def deploy(self, number: int, **rollout: Any) -> Deployed:
        return self.bring(self.packed(number), **rollout)

    def bring(self, made: Packed, **rollout: Any) -> Deployed:
        how = Rollout(**{"timeout_s": 20.0, **rollout})
        tools = means(self.folder, self.said.append)
        return steps.deploy(made, self.cluster, tools, around=Surroundings(), rollout=how)


@pytest.fixture
def deployer(cluster: Cluster, registry: Registry, tmp_path: Path, request: pytest.FixtureRequest) -> Deployer:
    name = str(request.node.name).lower().replace("[", "-").replace("]", "").replace("_", "-").replace(" ", "-")
    return Deployer(cluster, f"{registry.host}/{name}", tmp_path)


@pytest.fixture
def through(registry: Registry, cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Proxy, Deployer]]:
    with registry_server.proxy(registry.host) as between:
        yield between, Deployer(cluster, f"{between.host}/through-{tmp_path.name.replace('_', '-')}", tmp_path)


def test_a_deployment_is_ready_and_the_same_again_does_nothing(api: ApiServer, deployer: Deployer) -> None:
    first = deployer.deploy(1)
    brought = first.brought
    assert (brought.action, brought.revision, brought.traffic) == ("created", "embed-00001", {"embed-00001": 100})
    assert brought.url == "http://embed.default.example.com"
    assert deployer.said[0] == "asking the cluster whether it takes embed"
    writes = len(api.called("patch", "services"))
    again = deployer.deploy(1)
    assert (again.brought.action, again.brought.revision, again.sent_bytes) == ("unchanged", "embed-00001", 0)
    assert again.code == first.code
    later = api.called("patch", "services")[writes:]
    assert later
    assert all("dryRun" in call.query for call in later)


def test_kn_02_a_change_makes_a_revision_and_takes_the_calls(deployer: Deployer) -> None:
    deployer.deploy(1)
    brought = deployer.deploy(2).brought
    assert (brought.action, brought.revision, brought.traffic) == ("changed", "embed-00002", {"embed-00002": 100})


def test_a_canary_gets_its_share_and_the_rest_stays(deployer: Deployer) -> None:
    deployer.deploy(1)
    brought = deployer.deploy(2, canary=10).brought
    assert brought.traffic == {"embed-00001": 90, "embed-00002": 10}
    assert deployer.cluster.describe("embed").traffic[1] == Share("embed-00002", 10, "candidate")
    again = deployer.deploy(2, canary=10).brought
    assert again.traffic == {"embed-00001": 90, "embed-00002": 10}
    assert again.notes == ("nothing has changed, so nothing is on trial",)


def test_the_first_of_all_has_nothing_to_be_tried_against(deployer: Deployer) -> None:
    brought = deployer.deploy(1, canary=10).brought
    assert brought.traffic == {"embed-00001": 100}
    assert "no revision to compare with" in brought.notes[0]


def test_without_traffic_a_revision_is_reached_by_its_tag(deployer: Deployer) -> None:
    deployer.deploy(1)
    brought = deployer.deploy(2, traffic=False, tag="next").brought
    assert (brought.revision, brought.traffic) == ("embed-00002", {"embed-00001": 100})
    urls = {url.tag: url.url for url in deployer.cluster.describe("embed").urls}
    deployer.cluster.wait_ready("embed", timeout_s=20)
    assert urls.get("next", "http://next-embed.default.example.com") == "http://next-embed.default.example.com"


def test_after_a_rollback_calls_stay_and_it_is_said(deployer: Deployer) -> None:
    deployer.deploy(1)
    deployer.deploy(2)
    deployer.cluster.rollback("embed")
    brought = deployer.deploy(3).brought
    assert brought.traffic == {"embed-00001": 100}
    assert "faas promote embed sends them to the new one" in brought.notes[0]


def test_without_waiting_it_returns_at_once(deployer: Deployer) -> None:
    brought = deployer.deploy(1, wait=False).brought
    assert (brought.action, brought.revision) == ("created", None)
    assert "faas describe embed" in brought.notes[0]


@pytest.mark.parametrize("options", [{"canary": 10}, {"tag": "x"}, {"traffic": False}])
def test_traffic_cannot_be_shared_without_waiting(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="leave --no-wait out"):
        Rollout(wait=False, **options)


@pytest.mark.parametrize("tag", ["My_Tag", "longer-than-any", "", "-a"])
def test_a_tag_that_no_host_can_begin_with_is_refused_before_anything_is_sent(tag: str) -> None:
    with pytest.raises(InvalidSpec, match=r"traffic\.tag"):
        Rollout(tag=tag)


def test_an_interrupt_while_it_is_waited_for_says_that_the_cluster_goes_on(
    api: ApiServer, deployer: Deployer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deployer.cluster, "wait_ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        deployer.deploy(1)
    assert "the cluster goes on with it: faas describe embed shows it" in deployer.said[-1]


def test_k8_04_a_storm_of_conflicts_passes(api: ApiServer, deployer: Deployer) -> None:
    deployer.deploy(1)
    storm = [stale("services", "embed") for _ in range(4)]
    api.do(lambda state: state.faults.append(once(*storm, verb="patch", resource="services")))
    assert deployer.deploy(2).brought.traffic == {"embed-00002": 100}


@pytest.mark.slow
def test_conflicts_without_an_end_are_given_up_and_nothing_is_changed(api: ApiServer, deployer: Deployer) -> None:
    deployer.deploy(1)
    api.do(lambda state: state.faults.append(always(stale("services", "embed"), verb="patch", resource="services")))
    with pytest.raises(Conflict, match="was changed by somebody else"):
        deployer.deploy(2)
    assert len(deployer.cluster.describe("embed").revisions) == 1


def test_k8_02_a_watch_that_expires_is_begun_again(api: ApiServer, deployer: Deployer) -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    api.do(lambda state: state.faults.append(once([gone], [gone], verb="watch", resource="services")))
    api.do(lambda state: state.faults.append(once(Answer(410, "too old"), verb="watch", resource="pods")))
    assert deployer.deploy(1).brought.traffic == {"embed-00001": 100}


def test_kn_09_what_the_webhook_refuses_is_refused_before_anything_is_sent(
    registry: Registry, deployer: Deployer
) -> None:
    made = deployer.packed(1, calls=Calls(timeout_s=600))
    with pytest.raises(Refused, match="this cluster allows a request 600 s and the service asks for 900 s"):
        deployer.bring(made)
    repositories = registry.root / "docker" / "registry" / "v2" / "repositories"
    sent = list(repositories.glob("*/embed"))
    assert not [path for path in sent if deployer.repository.endswith(path.parent.name)]


@pytest.mark.slow
def test_a_revision_that_never_gets_ready_leaves_the_calls_where_they_were(api: ApiServer, deployer: Deployer) -> None:
    deployer.deploy(1)
    bad = deployer.packed(2)
    image = _image_of(deployer, bad)
    api.controller.behaviours[image] = "crash"
    with pytest.raises(NotReady, match="CrashLoopBackOff") as caught:
        deployer.bring(bad)
    assert "ModuleNotFoundError: No module named 'tokenizers'" in caught.value.log[-1]
    detail = deployer.cluster.describe("embed")
    assert detail.service.revision == "embed-00001"


def test_a_revision_that_loads_for_ever_is_waited_for_no_longer_than_told(api: ApiServer, deployer: Deployer) -> None:
    bad = deployer.packed(1)
    api.controller.behaviours[_image_of(deployer, bad)] = "never"
    with pytest.raises(NotReady, match=r"is not ready after 0\.5 s"):
        deployer.bring(bad, timeout_s=0.5)


def test_a_registry_that_drops_a_blob_gets_it_once_more(registry: Registry, through: tuple[Proxy, Deployer]) -> None:
    between, deployer = through
    name = deployer.repository.partition("/")[2] + "/embed"
    dropped: list[str] = []

    def drop(seen: Seen) -> None:
        if not dropped and seen.method == "PUT" and "digest=" in seen.path and f"/{name}/" in seen.path:
            dropped.append(seen.path.partition("digest=")[2].replace("%3A", ":").partition("&")[0])
            registry.forget(name, dropped[0])

    between.after = drop
    assert deployer.deploy(1).brought.traffic == {"embed-00001": 100}
    assert dropped


def test_a_registry_that_keeps_nothing_is_named_and_nothing_is_changed(
    registry: Registry, through: tuple[Proxy, Deployer]
) -> None:
    between, deployer = through
    name = deployer.repository.partition("/")[2] + "/embed"

    def drop(seen: Seen) -> None:
        if seen.method == "PUT" and "digest=" in seen.path and f"/{name}/" in seen.path:
            registry.forget(name, seen.path.partition("digest=")[2].replace("%3A", ":").partition("&")[0])

    between.after = drop
    with pytest.raises(ImageError, match="blob unknown to registry"):
        deployer.deploy(1)
    assert deployer.cluster.services() == []


def _image_of(deployer: Deployer, made: Packed) -> str:
    """Push what would be deployed, to know its digest."""
    from faas.deployment.published import publish

    return publish(made, means(deployer.folder)).code.image
