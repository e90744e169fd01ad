"""`faas promote`: all calls to one revision, or to one version of the state within it."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, revisions, versions, where
from faas.cli import store as stores
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where


@click.command()
@click.argument("name")
@click.argument("revision", required=False)
@where.options
@click.option("--version", metavar="N|latest", help="Give the calls to a version of the state, not to a revision.")
@click.option("--label", default=versions.STABLE, show_default=True, help="The label that is to lead to the version.")
@stores.any_option
@listing.option
def command(
    name: str,
    revision: str | None,
    where: Where,
    version: str | None,
    label: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Give all calls of the function NAME to a REVISION (default: the latest), or to a version of its state.

    With --version, instances have the version ready before it gets a call, and none of the version before is answered
    once this returns. With --store it is written there for whoever follows it: without a platform, or for several.
    """
    if store is None and where.is_cluster:
        _on_cluster(name, where, revision, version, as_json=as_json)
        return
    if version is None:
        wanted = {"percents": {revision or "latest": 100}}
        found = Control.named().post(f"/functions/{names.label(name)}/traffic", wanted, timeout_s=None)
        if as_json:
            listing.write_json(found)
        else:
            revisions.tell_shares(found)
        return
    if revision is not None:
        raise Failure("a revision and --version: give one of them", "faas promote --help", CALL_WAS_WRONG)
    number = versions.number(version)
    if store is not None:
        versions.tell(versions.label_in(store, names.label(name), label, number), as_json=as_json)
        return
    path = f"/functions/{names.label(name)}/versions/label"
    versions.tell(Control.named().post(path, {"label": label, "version": number}, timeout_s=None), as_json=as_json)


def _on_cluster(name: str, where: Where, revision: str | None, version: str | None, *, as_json: bool) -> None:
    if version is not None:
        what = "the instances of a cluster follow the versions in their store"
        raise Failure(what, "name it: --store s3://bucket/prefix", CALL_WAS_WRONG)
    from faas.cli.cluster import life  # the Kubernetes client is for this alone

    life.promote(name, where, revision, as_json=as_json)
