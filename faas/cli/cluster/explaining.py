"""From an error of a cluster, an image or a store to what its user is told."""

from __future__ import annotations

import click

from deploy import errors
from deploy.errors import InvalidSpec
from deploy.image.errors import BadReference, ImageError
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from snapshot.errors import BadAddressError, RemoteError


def explained(error: Exception) -> Failure | None:
    """Return what happened and what to do next; None for an error of anything else."""
    if isinstance(error, errors.NotReady):
        for line in error.log:
            click.echo(f"    {line}", err=True)
        return Failure(error.args[0], "mend what it says, then deploy again; a revision that served before still does")
    if isinstance(error, InvalidSpec):
        return Failure(str(error).removesuffix(f"; {error.remedy}"), error.remedy, CALL_WAS_WRONG)
    if isinstance(error, ImageError):
        code = CALL_WAS_WRONG if isinstance(error, BadReference) else WORK_FAILED
        return Failure(error.problem, error.remedy, code)
    if isinstance(error, errors.DeployError):
        what, _, then = str(error).rpartition("; ")
        kind = next((kind for kind in _NEXT if isinstance(error, kind)), None)
        usual, code = _NEXT[kind] if kind is not None else ("faas doctor looks at the cluster", WORK_FAILED)
        return Failure(what or str(error), then if what else usual, code)
    if isinstance(error, BadAddressError):
        return Failure(str(error), "write FAAS_STORE or --store as s3://bucket/prefix", CALL_WAS_WRONG)
    if isinstance(error, RemoteError):
        return Failure(str(error), "then give the same command again: it goes on where it was")
    return None


_NEXT: dict[type[errors.DeployError], tuple[str, int]] = {
    errors.MissingLibrary: ("pip install 'faas[knative]'", WORK_FAILED),
    errors.NoCluster: ("name a kubeconfig in KUBECONFIG, or: faas deploy TARGET --dry-run -o yaml", WORK_FAILED),
    errors.Missing: ("faas list --cluster shows the functions that are there", CALL_WAS_WRONG),
    errors.NotAllowed: ("faas doctor looks at the cluster; docs/knative.md lists the rights", WORK_FAILED),
    errors.Conflict: ("give the same command again", WORK_FAILED),
    errors.Unavailable: ("give the same command again a little later", WORK_FAILED),
    errors.NotOurs: ("choose another name or namespace", CALL_WAS_WRONG),
}
