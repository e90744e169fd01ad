"""Which functions a command is about: those of the platform that runs here, or those on a cluster."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from faas import address, names, settings
from faas.cli.control import named_elsewhere
from faas.cli.failure import CALL_WAS_WRONG, Failure

if TYPE_CHECKING:
    from deploy.knative import Cluster


@dataclass(frozen=True)
class Where:
    """What the options say. `local` and `cluster` are False where neither was given."""

    local: bool = False
    cluster: bool = False
    namespace: str | None = None
    context: str | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether the cluster is meant.

        It is where an option says so. Otherwise the platform is meant that runs here or that the environment names;
        and where there is none, the cluster, if there is something that names one.
        """
        if self.local or self.names_cluster:
            return self.names_cluster
        found = settings.read()
        has_platform = named_elsewhere(found) is not None or found.url is not None or found.platform_socket is not None
        if has_platform or address.read_record(found) is not None or address.holder(found) is not None:
            return False
        return settings.names_cluster()

    @property
    def names_cluster(self) -> bool:
        """Whether an option says that the cluster is meant."""
        return self.cluster or self.namespace is not None or self.context is not None

    @contextlib.contextmanager
    def connected(self) -> Iterator[Cluster]:
        """Give the cluster; what goes wrong with it is said with what to do next."""
        from faas.cli.cluster.failures import failures  # the Kubernetes client, which most commands do without

        with failures(), self.connect() as cluster:
            yield cluster

    def connect(self) -> Cluster:
        """Return the cluster, to which nothing is sent yet. Raises ClusterErrors."""
        from deploy.knative import Cluster  # as above

        return Cluster.connect(self.context, self.namespace or settings.read().namespace)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--local`, `--cluster`, `--namespace` and `--context`, as `where`."""
    return _given(click.option("--local", is_flag=True, help="Of the platform that runs here.")(command))


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that is about clusters alone `--namespace` and `--context`, as `where`."""
    return _given(command, cluster=False)


def _given(command: Callable[..., Any], *, cluster: bool = True) -> Callable[..., Any]:
    @functools.wraps(command)
    def wrapped(*args: Any, **found: Any) -> Any:
        where = Where(
            found.pop("local", False),
            found.pop("cluster", not cluster),
            found.pop("namespace"),
            found.pop("context"),
        )
        if where.local and where.names_cluster:
            raise Failure("--local and an option that names a cluster", "give one of them", CALL_WAS_WRONG)
        return command(*args, where=where, **found)

    made = click.option("--context", metavar="NAME", help="The context of the kubeconfig; default: its current one.")(
        wrapped
    )
    made = click.option("--namespace", metavar="NAME", help="On the cluster; FAAS_NAMESPACE, or the context's.")(made)
    return click.option("--cluster", is_flag=True, help="Of the cluster.")(made) if cluster else made


def service(name: str, cluster: Cluster) -> str:
    """Return what the function NAME is called on a cluster."""
    from deploy.names import dns_label

    return dns_label(names.label(name), cluster.namespace)
