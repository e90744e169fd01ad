"""The whole way of a service, while the API server is as difficult as it may be."""

import random

import pytest

from deploy.knative import Cluster
from deploy.traffic import EVERYTHING_LATEST, Share

from .answers import Answer, stale
from .api_server import ApiServer, Call, Fault
from .given import deployed, document

GONE = Answer(410, "too old resource version: 1 (2)")


def difficult(seed: int) -> Fault:
    """One request in four meets a conflict, an expired version, a busy server or a watch that ends."""
    draw = random.Random(seed)
    in_a_row: dict[str, int] = {}

    def fault(call: Call) -> "Answer | list[dict[str, object]] | None":
        choices: dict[str, list[Answer | list[dict[str, object]]]] = {
            "patch": [stale("services", "hello"), Answer(429, "busy")],
            "watch": [
                GONE,
                [{"type": "ERROR", "object": GONE.status}],
                [],
                Answer(500, "etcd"),
                Answer(429, "busy"),
            ],
            "list": [Answer(429, "busy")],
            "get": [Answer(429, "busy")],
        }
        if call.verb not in choices or draw.random() > 0.25 or in_a_row.get(call.verb, 0) >= 2:
            in_a_row[call.verb] = 0
            return None
        in_a_row[call.verb] = in_a_row.get(call.verb, 0) + 1
        return draw.choice(choices[call.verb])

    return fault


@pytest.mark.parametrize("seed", [1, 2])
def test_deploy_traffic_rollback_and_delete_through_conflicts_and_ends(
    api: ApiServer, cluster: Cluster, seed: int
) -> None:
    api.do(lambda state: state.faults.append(difficult(seed)))
    first, second = deployed(cluster, "1", "2")
    assert cluster.pin("hello") == second
    (third,) = deployed(cluster, "3")
    assert cluster.start_canary("hello", percent=20) == (Share(second, 80), Share(third, 20, "candidate"))
    assert cluster.rollback("hello")[0] == second
    assert cluster.promote("hello") == EVERYTHING_LATEST
    assert cluster.rollback("hello", to=first)[1] == (Share(first, 100),)
    generation = cluster.scale("hello", max_instances=7)
    cluster.wait_ready("hello", timeout_s=30, generation=generation)
    assert cluster.apply(document(tag="3")).action == "changed"
    assert [revision.number for revision in cluster.describe("hello").revisions][:2] >= [4, 3]
    cluster.delete("hello", timeout_s=30)
    assert cluster.services() == []
