"""The rights in docs/knative.md are those of the requests that are made: none more, none fewer."""

import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.errors import NotReady
from deploy.knative import Cluster
from deploy.knative.rest import Rest
from deploy.knative.rollout import watch
from deploy.knative.waiting import wait_ready
from deploy.rollback import Limits
from deploy.traffic import Share

from .api_server import ApiServer
from .given import deployed, document

DOCS = Path(__file__).parents[3] / "docs" / "knative.md"
Right = tuple[str, str]  # verb, resource


def documented() -> dict[str, set[Right]]:
    found: dict[str, set[Right]] = {}
    for block in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL):
        role: dict[str, Any] = yaml.safe_load(block)
        rights = {(verb, kind) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
        found[role["kind"]] = rights
    return found


def live_a_life(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    """Everything that the commands do, once."""
    deployed(cluster, "1")
    cluster.pin("hello")
    deployed(cluster, "2")
    cluster.start_canary("hello", percent=10)
    stop = threading.Event()
    limits = Limits()
    watch(rest, "default", "hello", limits=limits, every_s=0.01, stop=stop, on_decision=lambda _: stop.set())
    cluster.promote("hello")
    cluster.rollback("hello")
    cluster.set_traffic("hello", (Share(None, 100),))
    cluster.scale("hello", min_instances=1)
    api.controller.behaviours["ghcr.io/acme/hello:broken"] = "crash"
    cluster.apply(document(tag="broken"))
    with pytest.raises(NotReady):
        wait_ready(rest, "default", "hello", timeout_s=20, settle_s=0.1)
    cluster.services()
    cluster.describe("hello")
    cluster.cold_starts("hello")
    cluster.logs("hello")
    api.do(lambda state: setattr(state, "num_logs_to_cut", 9))  # a log that ends has its pod looked at
    lines = cluster.follow_logs("hello", timeout_s=30)
    next(lines)
    while ("get", "pods") not in api.state.used:
        api.do(lambda state: [state.say(pod, "more") for pod in list(state.logs)])
        next(lines)
    lines.close()
    cluster.delete("hello")
    cluster.put_secret("hub", {"A": b"1"})
    cluster.put_secret("hub", {"A": b"2"})
    cluster.secrets()
    cluster.delete_secret("hub")


@pytest.mark.slow
def test_the_documented_rights_are_the_ones_used(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    live_a_life(api, rest, cluster)
    by_life = set(api.state.used)
    cluster.facts(document())
    roles = documented()
    assert api.state.used - by_life == roles["ClusterRole"] | {("list", "resourcequotas")}
    assert by_life | {("list", "resourcequotas")} == roles["Role"]


def test_with_just_those_rights_everything_works(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    allowed = documented()["Role"]
    api.do(lambda state: setattr(state, "allowed", allowed))
    live_a_life(api, rest, cluster)
    facts = cluster.facts(document())
    assert (facts.nodes, facts.features) == (None, None)
    assert facts.was_tried
