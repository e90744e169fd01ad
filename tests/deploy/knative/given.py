"""Services for the tests of this folder."""

from typing import Any

from deploy import Scaling, ServiceSpec
from deploy.knative import Cluster
from deploy.manifest import Document, service


def spec(name: str = "hello", tag: str = "1", **options: Any) -> ServiceSpec:
    return ServiceSpec(name=name, image=f"ghcr.io/acme/hello:{tag}", **options)


def document(name: str = "hello", tag: str = "1", **options: Any) -> Document:
    return service(spec(name, tag, **options))


def scaled(least: int, most: int) -> Document:
    return document(scaling=Scaling(min_instances=least, max_instances=most))


def deployed(cluster: Cluster, *tags: str, name: str = "hello") -> list[str]:
    """Deploy each tag in turn and wait for it; the revisions they made."""
    revisions = []
    for tag in tags:
        applied = cluster.apply(document(name, tag))
        revisions.append(cluster.wait_ready(applied.name, timeout_s=20, generation=applied.generation).revision)
    return revisions
