"""A function's way through a real cluster: deployed, woken from zero, changed, shared, taken back, deleted."""

from __future__ import annotations

import time

from deploy.knative import Cluster
from deploy.knative.resources import PODS, SERVICE_LABEL
from deploy.knative.rest import Rest
from deploy.knative.watching import Changed, Watch
from tests.cluster.conftest import REGISTRY, Faas

ZERO_WITHIN_S = 240.0


def wait_for_zero(rest: Rest, cluster: Cluster, name: str) -> None:
    """Return when the last pod is gone."""
    watch = Watch(rest, PODS.path(cluster.namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})
    pods: set[str] = set()
    for event in watch.events(time.monotonic() + ZERO_WITHIN_S):
        if isinstance(event, Changed):
            found = event.object["metadata"]["name"]
            pods = pods - {found} if event.kind == "DELETED" else pods | {found}
        else:
            pods = {pod["metadata"]["name"] for pod in event.items}
        if not pods:
            return
    raise AssertionError(f"after {ZERO_WITHIN_S} s there are still {sorted(pods)}")


def test_a_functions_way(faas: Faas, cluster: Cluster, rest: Rest) -> None:
    name = faas.name

    faas.write("hello")
    first = faas.deploy()
    assert (first["action"], first["service"]) == ("created", name)
    assert faas("invoke", name, "--cluster", "-d", '"Ada"') == '"hello, Ada"\n'
    assert "called by Ada" in faas("logs", name, "--cluster")
    again = faas.deploy()
    assert (again["action"], again["sent_bytes"], again["revision"]) == ("unchanged", 0, first["revision"])

    wait_for_zero(rest, cluster, name)
    begun = time.monotonic()
    assert faas("invoke", name, "--cluster", "-d", '"Eve"') == '"hello, Eve"\n'
    print(f"\nfrom zero, the command and all: {time.monotonic() - begun:.2f} s")
    (start,) = faas.read("describe", name, "--cluster", "--cold-starts")
    assert start["total_s"] is not None
    assert {"import", "thaw"} <= start["phases_s"].keys()
    print(start)

    faas.write("good day")
    begun = time.monotonic()
    second = faas.deploy()
    print(f"a changed function: {time.monotonic() - begun:.2f} s, of it until ready {second['ready_s']:.2f} s")
    assert second["action"] == "changed"
    assert second["traffic"] == {second["revision"]: 100}
    assert faas("invoke", name, "--cluster", "-d", '"Ada"') == '"good day, Ada"\n'

    faas("traffic", name, "--cluster", "--to", "1=100", "--tag", "next=2")
    cluster.wait_ready(name)
    assert faas("invoke", name, "--cluster", "-d", '"Ada"') == '"hello, Ada"\n'
    assert faas("invoke", name, "--cluster", "--tag", "next", "-d", '"Ada"') == '"good day, Ada"\n'
    faas("promote", name, "--cluster")

    faas.write("good night")
    third = faas.deploy("--canary", "10")
    assert third["traffic"] == {second["revision"]: 90, third["revision"]: 10}
    assert faas("rollback", name, "--cluster") == f"{name}: {second['revision']} 100%\n"
    cluster.wait_ready(name)
    assert faas("invoke", name, "--cluster", "-d", '"Ada"') == '"good day, Ada"\n'

    faas("delete", name, "--cluster", "--yes")
    assert name not in [row["label"] for row in faas.read("list", "--cluster")]


def test_doctor_finds_nothing_wrong(faas: Faas) -> None:
    faas.write("hello")
    findings = faas.read("doctor", "app.py", *REGISTRY)
    assert not [finding for finding in findings if finding["level"] == "error"]
    assert "ok" in [finding["level"] for finding in findings if finding["check"] == "dry run"]
