"""The functions of a cluster, shown: all of them, one with its revisions and instances, and what starts cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from deploy.knative import Cluster
from deploy.knative.cold_starts import ColdStart
from deploy.knative.services import Detail
from deploy.traffic import shares_of
from faas.cli import listing, where
from faas.cli.listing import duration
from faas.cli.revisions import of_stamp
from faas.cli.where import Where


def show_all(found: Where, *, all_namespaces: bool, as_json: bool) -> None:
    """Write the functions that were deployed."""
    with found.connected() as cluster:
        found_ones = cluster.services(all_namespaces=all_namespaces)
        rows = [asdict(service) for service in found_ones if not service.component]
        none = "no functions" if all_namespaces else f"no functions in {cluster.namespace}"
    columns = _SERVICES if not all_namespaces else {"namespace": lambda row: row["namespace"], **_SERVICES}
    listing.show(rows, columns, as_json=as_json, none=none)


def describe(name: str, found: Where, *, cold_starts: bool, as_json: bool) -> None:
    """Write all that the cluster knows of a function; with `cold_starts` what its starts cost."""
    with found.connected() as cluster:
        label = where.service(name, cluster)
        if cold_starts:
            _show_starts(cluster.cold_starts(label), label, as_json=as_json)
            return
        detail = cluster.describe(label)
    if as_json:
        listing.write_json(asdict(detail))
        return
    for title, value in _facts(detail).items():
        if value:
            click.echo(f"{title:<15}{value}")
    click.echo()
    show_revisions(detail, as_json=False)
    if detail.instances:
        click.echo()
        listing.show([asdict(one) for one in detail.instances], _INSTANCES, as_json=False, none="")


def show_revisions(detail: Detail, *, as_json: bool) -> None:
    """Write all that is known of a function as JSON, or a table of its revisions, the newest first."""
    if as_json:
        listing.write_json(asdict(detail))
    else:
        listing.show([asdict(one) for one in detail.revisions], _REVISIONS, as_json=False, none="no revisions")


def tell_shares(cluster: Cluster, label: str, *, as_json: bool) -> None:
    """Say how a function's calls are shared now."""
    detail = cluster.describe(label)
    if as_json:
        listing.write_json(asdict(detail))
    else:
        click.echo(f"{detail.service.name}: {shares(detail)}")


def shares(detail: Detail) -> str:
    """Return how a function's calls are shared, in a line."""
    found = shares_of(detail.traffic, detail.service.revision)
    return ", ".join(f"{revision} {percent}%" for revision, percent in found.items()) or "none"


def _facts(detail: Detail) -> dict[str, str | None]:
    service = detail.service
    trouble = next((one for one in detail.conditions if one.kind == "Ready" and one.status != "True"), None)
    tags = (f"{url.tag} at {url.url}" for url in detail.urls if url.tag is not None)
    newest = detail.revisions[0] if detail.revisions else None
    most = "any number" if newest is None or not newest.max_instances else str(newest.max_instances)
    return {
        "function": service.name,
        "service": f"{service.label} in {service.namespace}",
        "url": service.url,
        "image": service.image,
        "ready": _ready(service.ready),
        "reason": None if trouble is None else ": ".join(filter(None, (trouble.reason, trouble.message))),
        "traffic": shares(detail),
        "tags": ", ".join(tags),
        "instances": None if newest is None else f"{newest.min_instances} to {most}",
        "calls at once": None if newest is None else f"{newest.concurrency or 'any number'} in an instance",
    }


def _show_starts(starts: list[ColdStart], label: str, *, as_json: bool) -> None:
    rows = [asdict(start) for start in starts]
    phases = dict.fromkeys(phase for start in starts for phase in start.phases_s)
    columns = {**_STARTS, **{phase: _phase(phase) for phase in phases}}
    none = f"{label} has no instances; call it, and look again while it is warm"
    listing.show(rows, columns, as_json=as_json, none=none)


def _phase(name: str) -> Any:
    return lambda row: duration(row["phases_s"].get(name))


def _ready(ready: bool | None) -> str:
    return {True: "yes", False: "no", None: "not yet"}[ready]


def _when(row: Mapping[str, Any]) -> str | None:
    return of_stamp(row["created_at"])


STATE: listing.Columns = {
    "url": lambda row: row["url"],
    "revision": lambda row: row["revision"],
    "ready": lambda row: _ready(row["ready"]),
    "instances": lambda row: row["num_instances"],
    "since": _when,
    "reason": lambda row: None if row["ready"] else row["reason"],
}
_SERVICES: listing.Columns = {"function": lambda row: row["name"], **STATE}
_REVISIONS: listing.Columns = {
    "revision": lambda row: row["name"],
    "number": lambda row: row["number"],
    "deployed": _when,
    "ready": lambda row: _ready(row["ready"]),
    "traffic": lambda row: f"{row['percent']}%",
    "tags": lambda row: ", ".join(row["tags"]),
    "instances": lambda row: row["num_instances"],
    "reason": lambda row: None if row["ready"] else row["reason"],
}
_INSTANCES: listing.Columns = {
    "instance": lambda row: row["state"]["name"],
    "revision": lambda row: row["revision"],
    "state": lambda row: row["state"]["stage"],
    "node": lambda row: row["node"],
    "since": _when,
    "restarts": lambda row: row["state"]["num_restarts"],
    "reason": lambda row: row["state"]["reason"],
}
_STARTS: listing.Columns = {
    "instance": lambda row: row["pod"],
    "since": _when,
    "node": lambda row: row["node"],
    "total": lambda row: duration(row["total_s"]),
    "scheduling": lambda row: duration(row["scheduling_s"]),
    "container": lambda row: duration(row["container_s"]),
    "of it image": lambda row: duration(row["image_s"]),
    "until ready": lambda row: duration(row["ready_s"]),
}
