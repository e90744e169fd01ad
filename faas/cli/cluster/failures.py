"""What goes wrong with a cluster, an image or a store, with what to do next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from deploy import errors
from deploy.errors import InvalidSpec
from deploy.image.errors import BadReference, ImageError
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from snapshot.errors import BadAddressError, RemoteError


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Say of errors what they are, in a line, and what to do next, in another."""
    try:
        yield
    except errors.NotReady as error:
        for line in error.log:
            click.echo(f"    {line}", err=True)
        raise Failure(error.args[0], "mend what it says, then deploy again; calls stay where they were") from error
    except InvalidSpec as error:
        shown = str(error).removesuffix(f"; {error.remedy}")
        raise Failure(shown, error.remedy, CALL_WAS_WRONG) from error
    except ImageError as error:
        code = CALL_WAS_WRONG if isinstance(error, BadReference) else WORK_FAILED
        raise Failure(error.problem, error.remedy, code) from error
    except errors.DeployError as error:
        what, _, then = str(error).rpartition("; ")
        kind = next((kind for kind in _NEXT if isinstance(error, kind)), None)
        usual, code = _NEXT[kind] if kind is not None else ("faas doctor looks at the cluster", WORK_FAILED)
        raise Failure(what or str(error), then if what else usual, code) from error
    except BadAddressError as error:
        raise Failure(str(error), "write FAAS_STORE or --store as s3://bucket/prefix", CALL_WAS_WRONG) from error
    except RemoteError as error:
        raise Failure(str(error), "then give the same command again: it goes on where it was") from error


_NEXT: dict[type[errors.DeployError], tuple[str, int]] = {
    errors.MissingLibrary: ("pip install 'faas[knative]'", WORK_FAILED),
    errors.NoCluster: ("name a kubeconfig in KUBECONFIG, or: faas deploy --dry-run -o yaml", WORK_FAILED),
    errors.Missing: ("faas list --cluster shows the functions that are there", CALL_WAS_WRONG),
    errors.NotAllowed: ("faas doctor looks at the cluster; docs/knative.md lists the rights", WORK_FAILED),
    errors.Conflict: ("give the same command again", WORK_FAILED),
    errors.NotOurs: ("choose another name or namespace", CALL_WAS_WRONG),
}
