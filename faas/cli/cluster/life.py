"""A function of a cluster changed: its traffic, how many instances it may have, its end."""

from __future__ import annotations

from collections.abc import Mapping

import click

from deploy.knative import Cluster
from deploy.knative.services import Detail
from faas.cli import listing, progress, where
from faas.cli.cluster import services, trial
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where
from faas.deployment import shares


def traffic(
    name: str, found: Where, percents: Mapping[str, int], tags: Mapping[str, str | None], *, as_json: bool
) -> None:
    """Show how a function's calls are shared, or change it."""
    with found.connected() as cluster:
        label = where.service(name, cluster)
        detail = cluster.describe(label)
        if percents or tags:
            cluster.set_traffic(label, shares.changed(detail, percents, tags))
            detail = cluster.describe(label)
        services.show_revisions(detail, as_json=as_json)


def watch(name: str, found: Where, *, as_json: bool) -> int:
    """Watch the trial that is under way to its end. Returns the exit code."""
    with found.connected() as cluster:
        return trial.watch(cluster, where.service(name, cluster), as_json=as_json)


def promote(name: str, found: Where, revision: str | None, *, as_json: bool) -> None:
    """Give all calls to one revision; None is the latest, now and in future."""
    with found.connected() as cluster:
        label = where.service(name, cluster)
        if revision is None or revision == "latest":
            cluster.promote(label)
            listing.notes(_unready(cluster.describe(label)))
        else:
            cluster.set_traffic(label, shares.all_to(revision, cluster.describe(label)))
        services.tell_shares(cluster, label, as_json=as_json)


def _unready(detail: Detail) -> list[str]:
    """Say so where the latest revision is none that calls could go to."""
    newest, ready = detail.revisions[0] if detail.revisions else None, detail.service.revision
    if newest is None or ready is None or newest.name == ready:
        return []
    return [f"{newest.name} is the latest, but not ready: {ready} has the calls until it is"]


def rollback(name: str, found: Where, to: str | None, *, as_json: bool) -> None:
    """Give all calls to what served before."""
    with found.connected() as cluster:
        label = where.service(name, cluster)
        meant = None if to is None else shares.revision(to, cluster.describe(label))
        cluster.rollback(label, meant)
        services.tell_shares(cluster, label, as_json=as_json)


def scale(name: str, found: Where, least: int | None, most: int | None, *, as_json: bool) -> None:
    """Set how many instances there may be."""
    if least is None and most is None:
        raise Failure("nothing says how many", "give INSTANCES, --min or --max", CALL_WAS_WRONG)
    with found.connected() as cluster:
        label = where.service(name, cluster)
        generation = cluster.scale(label, min_instances=least, max_instances=most)
        ready = cluster.wait_ready(label, generation=generation)
        newest = next(one for one in cluster.describe(label).revisions if one.name == ready.revision)
    if as_json:
        bounds = {"min_instances": newest.min_instances, "max_instances": newest.max_instances}
        listing.write_json({"name": name, "service": label, "revision": newest.name, **bounds})
        return
    bounds_text = f"{newest.min_instances} to {newest.max_instances or 'any number of'}"
    click.echo(f"{label}: {bounds_text} instances, in revision {newest.name}")
    if not ready.receives_traffic:
        click.echo(f"calls are held to another revision; faas promote {name} sends them here", err=True)


def delete_service(cluster: Cluster, label: str) -> None:
    """Delete a service, and wait until it is gone: its instances first answer what they have."""
    with progress.steps() as step:
        step(f"deleting {label}; its instances finish what they have")
        try:
            cluster.delete(label)
        except KeyboardInterrupt:
            step(f"{label} is no longer waited for, and the cluster goes on deleting it")
            raise


def delete(name: str, found: Where, *, yes: bool, as_json: bool) -> None:
    """Delete a function, and wait until it is gone."""
    with found.connected() as cluster:
        label = where.service(name, cluster)
        detail = cluster.describe(label)
        if component := detail.service.component:
            raise Failure(f"{name} is a {component}", f"faas {component} delete {name}", CALL_WAS_WRONG)
        if not yes:
            number = len(detail.revisions)
            what = f"delete {label} in {cluster.namespace} with {number} revision{'s' if number != 1 else ''}?"
            click.confirm(what, abort=True, err=True)
        delete_service(cluster, label)
        deleted = {"deleted": label, "namespace": cluster.namespace}
    if as_json:
        listing.write_json(deleted)
    else:
        click.echo(f"{label} is deleted")
