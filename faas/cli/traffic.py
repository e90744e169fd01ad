"""`faas traffic`: how a function's calls are shared among its revisions."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, revisions, where
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where

_ALL = 100


@click.command()
@click.argument("name")
@where.options
@click.option(
    "--to", "shares", multiple=True, metavar="REV=PERCENT", help="Give a revision a share; they add up to 100."
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG=REV", help="Reach a revision as /f/NAME@TAG/, or by its host."
)
@click.option("--untag", multiple=True, metavar="TAG", help="Take a tag away.")
@click.option("--watch", is_flag=True, help="Watch the trial under way, and promote it or take it back.")
@listing.option
def command(
    name: str,
    where: Where,
    shares: tuple[str, ...],
    tags: tuple[str, ...],
    untag: tuple[str, ...],
    watch: bool,
    as_json: bool,
) -> int:
    """Show how the calls of the function NAME are shared among its revisions, or change it.

    REV is a revision's id or its beginning, its number, a tag, or latest. No call fails by a change: a revision that is
    to get calls is ready before, one that gets none any more answers those that it has.
    """
    percents = {revision: _percent(revision, share) for revision, share in _pairs("--to", shares).items()}
    if percents and sum(percents.values()) != _ALL:
        what = f"the shares of --to add up to {sum(percents.values())} percent"
        raise Failure(what, f"have them add up to {_ALL}", CALL_WAS_WRONG)
    named = {**_pairs("--tag", tags), **dict.fromkeys(untag)}
    if where.is_cluster:
        from faas.cli.cluster import life  # the Kubernetes client is for this alone

        if watch:
            return life.watch(name, where, as_json=as_json)
        life.traffic(name, where, percents, named, as_json=as_json)
        return 0
    path = f"/functions/{names.label(name)}"
    wanted = {"percents": percents, "tags": named}
    control = Control.named()
    changes = wanted["percents"] or wanted["tags"]
    found = control.post(f"{path}/traffic", wanted, timeout_s=None) if changes else control.get(path)
    if watch:
        from faas.cli import trial  # what judges it is for this alone

        return trial.watch(control, names.label(name), as_json=as_json)
    revisions.show(found, as_json=as_json)
    return 0


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        left, sign, right = text.partition("=")
        if not (left and sign and right):
            what = "REV=PERCENT, as in latest=10" if option == "--to" else "TAG=REV, as in next=latest"
            raise Failure(f"{option} {text!r}: write {what}", "faas traffic --help", CALL_WAS_WRONG)
        if left in pairs:
            raise Failure(f"{option} names {left!r} twice", "faas traffic --help", CALL_WAS_WRONG)
        pairs[left] = right
    return pairs


def _percent(revision: str, share: str) -> int:
    text = share.removesuffix("%")
    if not text.isdecimal() or int(text) > _ALL:
        what = f"--to {revision}={share}: a share is a whole number from 0 to 100"
        raise Failure(what, "faas traffic --help", CALL_WAS_WRONG)
    return int(text)
