"""What instances count, read from their `/metrics` through the API server's proxy to pods.

It needs one right more than a deploy does (`get` on `pods/proxy`) and nothing open to the network. The answers of a
probe need none, but say nothing of real requests, and the public address reaches one instance at random.
"""

from collections.abc import Iterable

from deploy.errors import ApiError, NotAllowed, Unreachable
from deploy.knative.pods import pod_state
from deploy.knative.resources import PODS, REVISION_LABEL, USER_CONTAINER, Document
from deploy.knative.rest import Rest
from deploy.rollback import Counts, Reading

_FAILED = ("error", "deadline")  # a refused or malformed request is its caller's, or the scale's
_TIMEOUT_S = 5.0


def read(rest: Rest, namespace: str, revision: str) -> Reading:
    """The counts of each ready instance of `revision`; an instance that does not answer is left out.

    Raises `NotAllowed` where pods may not be reached through the API server.
    """
    found: dict[str, Counts] = {}
    for pod in rest.list_all(PODS.path(namespace), {"labelSelector": f"{REVISION_LABEL}={revision}"})["items"]:
        if pod_state(pod).stage != "ready":
            continue
        name = pod["metadata"]["name"]
        try:
            text = text_of(rest, namespace, pod)
        except NotAllowed:
            raise
        except (ApiError, Unreachable):
            continue
        found[name] = counts(text)
    return found


def text_of(rest: Rest, namespace: str, pod: Document) -> str:
    """The metrics of one instance, in Prometheus' text format; raises `NotAllowed`, `ApiError` or `Unreachable`."""
    place = PODS.path(namespace, f"{pod['metadata']['name']}:{_port(pod)}", "proxy")
    return rest.text(f"{place}/metrics", timeout_s=_TIMEOUT_S)


def counts(text: str) -> Counts:
    """Requests, failures and latencies from an instance's metrics in Prometheus' text format."""
    from prometheus_client.parser import text_string_to_metric_families  # only a trial reads metrics

    num_requests, num_errors = 0, 0
    buckets: dict[float, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "faas_requests_total":
                num_requests += int(sample.value)
                num_errors += int(sample.value) if sample.labels.get("outcome") in _FAILED else 0
            elif sample.name == "faas_request_seconds_bucket":
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0) + int(sample.value)
    return Counts(num_requests, num_errors, tuple(sorted(buckets.items())))


def _port(pod: Document) -> int:
    """The port of the function's own container: the proxy beside it counts for itself."""
    for container in _containers(pod):
        if container.get("name") == USER_CONTAINER:
            return int(container["ports"][0]["containerPort"])
    return 8000


def _containers(pod: Document) -> Iterable[Document]:
    return pod["spec"].get("containers") or ()
