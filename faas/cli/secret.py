"""`faas secret`: what functions on a cluster must know, and nobody else."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from faas.cli import listing, revisions, where
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where


@click.group()
def command() -> None:
    """Make, list and delete the secrets that functions on a cluster use.

    A function names them: secrets=["hub"] gives it all keys of one as variables, "TOKEN=hub/token" a single one. Values
    are never shown again.
    """


@command.command()
@click.argument("name")
@click.argument("values", nargs=-1, metavar="[KEY=VALUE]...")
@where.cluster_options
@click.option("--from-file", "files", multiple=True, metavar="[KEY=]PATH", help="The bytes of a file.")
@click.option("--from-env-file", metavar="PATH", help="KEY=VALUE lines, as in .env; - for standard input.")
@click.option("--replace", is_flag=True, help="Its other keys go.")
@listing.option
def create(
    name: str,
    values: tuple[str, ...],
    where: Where,
    files: tuple[str, ...],
    from_env_file: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Make the secret NAME, or set keys of it. Instances that run keep what they have; new ones get what is set.

    Values on the command line are seen by others on this machine: --from-env-file - reads them from standard input.
    """
    from faas.cli.cluster.failures import failures  # the Kubernetes client is for clusters alone

    with failures():
        given = _given(values, files, from_env_file)
    if not given:
        raise Failure(f"{name} is given no value", "write KEY=VALUE, or give --from-file", CALL_WAS_WRONG)
    with where.connected() as cluster:
        action = cluster.put_secret(name, given, replace=replace)
        row = {"name": name, "namespace": cluster.namespace, "action": action, "keys": sorted(given)}
    if as_json:
        listing.write_json(row)
    else:
        click.echo(f"{name} in {row['namespace']} is {action}: {', '.join(sorted(given))}")
    from deploy.env_file import notes  # help is to be quick

    listing.notes(notes(name, given))


@command.command("list")
@where.cluster_options
@listing.option
def listed(where: Where, as_json: bool) -> None:
    """List the secrets that were made here, with the names of their keys."""
    with where.connected() as cluster:
        rows = [asdict(secret) for secret in cluster.secrets()]
        none = f"no secrets in {cluster.namespace}"
    columns: listing.Columns = {
        "secret": lambda row: row["name"],
        "keys": lambda row: ", ".join(row["keys"]),
        "since": lambda row: revisions.of_stamp(row["created_at"]),
    }
    listing.show(rows, columns, as_json=as_json, none=none)


@command.command()
@click.argument("name")
@where.cluster_options
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@listing.option
def delete(name: str, where: Where, yes: bool, as_json: bool) -> None:
    """Delete the secret NAME. Functions that use it start no more instances."""
    with where.connected() as cluster:
        if not yes:
            click.confirm(f"delete the secret {name} in {cluster.namespace}?", abort=True, err=True)
        cluster.delete_secret(name)
        deleted = {"deleted": name, "namespace": cluster.namespace}
    if as_json:
        listing.write_json(deleted)
    else:
        click.echo(f"{name} is deleted")


def _given(values: tuple[str, ...], files: tuple[str, ...], env_file: str | None) -> dict[str, bytes]:
    from deploy import env_file as parsing  # help is to be quick

    given = {**parsing.literals(values), **parsing.files(files)}
    if env_file is not None:
        content = sys.stdin.buffer.read() if env_file == "-" else parsing.read(Path(env_file))
        try:
            given |= parsing.parse(content.decode())
        except UnicodeDecodeError as error:
            raise Failure(f"{env_file} is no text in UTF-8: {error.reason}", "give it as --from-file") from None
    return given
