"""The labels of one node that begin in one way, set to what is wanted: only what differs is sent."""

from collections.abc import Mapping

from deploy.knative.apply import FIELD_MANAGER
from deploy.knative.resources import NODES
from deploy.knative.rest import METADATA_ONLY, Rest


def label(rest: Rest, node: str, prefix: str, wanted: Mapping[str, str]) -> bool:
    """Have the node's labels that begin with `prefix` be these; all others stay. Returns whether any was changed.

    Raises `ClusterError`s.
    """
    path = NODES.path(name=node)
    live = rest.get(path, accept=METADATA_ONLY)["metadata"].get("labels") or {}
    change = difference({key: value for key, value in live.items() if key.startswith(prefix)}, wanted)
    if change:
        rest.merge(path, {"metadata": {"labels": change}}, {"fieldManager": FIELD_MANAGER})
    return bool(change)


def difference(live: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch from one set of labels to the other: None removes."""
    gone: dict[str, str | None] = {key: None for key in live if key not in wanted}
    return gone | {key: value for key, value in wanted.items() if live.get(key) != value}
