"""Which cluster, as whom, in which namespace: a kubeconfig, or the credentials of the pod that this runs in.

A kubeconfig comes first, as with kubectl: the files that `KUBECONFIG` lists, or `~/.kube/config`. Tokens, client
certificates and exec plugins are the `kubernetes` package's work, their renewal too.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deploy import names, proxy
from deploy.errors import InvalidName, MissingLibrary, NoCluster
from deploy.knative import kubeconfig

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_USUAL = "~/.kube/config"
_PLUGINS = {
    "gcp": "gke-gcloud-auth-plugin (gcloud container clusters get-credentials)",
    "azure": "kubelogin (kubelogin convert-kubeconfig)",
}
"""What took the place of the credentials that clients had built in."""


@dataclass(frozen=True)
class Connection:
    """A way to one API server. `configuration` is the client library's own; `proxy` what stands in between.

    `renew` reads the credentials anew, from where they came; raises `NoCluster`.
    """

    host: str
    namespace: str
    context: str | None
    proxy: str | None
    configuration: Any
    renew: Callable[[], None]


def connect(
    context: str | None = None, namespace: str | None = None, *, environ: Mapping[str, str] = os.environ
) -> Connection:
    """The cluster of `context` (the kubeconfig's current one where None), nothing sent to it yet.

    `namespace` goes before that of the context, that before the pod's own, and `default` is last. Raises `NoCluster`
    where there is no kubeconfig and no pod, or where it cannot be used.
    """
    if namespace is not None and not names.is_namespace(namespace):
        raise InvalidName("namespace", namespace, "is not a DNS label", "use a-z, 0-9 and hyphens, at most 63")
    files = _kubeconfig(environ)
    if files is None and "KUBERNETES_SERVICE_HOST" not in environ:
        raise NoCluster(
            f"no cluster: KUBECONFIG is not set and there is no {_USUAL}; have your operator give you a kubeconfig "
            "and name it in KUBECONFIG, or render the manifest alone with: faas deploy TARGET --dry-run -o yaml"
        )
    configuration = _new_configuration()
    load: Callable[[Any], tuple[str | None, str | None]] = _from_pod
    if files is not None:
        load = partial(_from_kubeconfig, files, context)
    context, inherited = load(configuration)

    def renew() -> None:
        fresh = _new_configuration()
        load(fresh)
        configuration.api_key, configuration.refresh_api_key_hook = fresh.api_key, fresh.refresh_api_key_hook

    if configuration.proxy is None:  # one that the kubeconfig names stands, as with kubectl
        configuration.proxy = proxy.choose(configuration.host, environ)
    configuration.no_proxy = None
    if configuration.proxy is not None:
        configuration.proxy_headers = proxy.headers(configuration.proxy)  # the library takes the address alone
    return Connection(
        host=configuration.host,
        namespace=namespace or inherited or "default",
        context=context,
        proxy=configuration.proxy,
        configuration=configuration,
        renew=renew,
    )


def _new_configuration() -> Any:
    try:
        from kubernetes import client  # an extra, and half a second that only cluster commands should pay
    except ImportError as missing:
        text = "talking to a cluster needs the package kubernetes; install it with: pip install 'faas[knative]'"
        raise MissingLibrary(text) from missing
    configuration = client.Configuration()
    configuration.proxy = None  # some releases read the environment, each by other rules; said so, none does
    return configuration


def _kubeconfig(environ: Mapping[str, str]) -> tuple[Path, ...] | None:
    """The kubeconfig files that are there, in their order; None where none is named and there is no usual one."""
    named = environ.get("KUBECONFIG", "")
    if named.strip(os.pathsep):
        parts = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
        files = tuple(part for part in parts if part.is_file())
        if not files:
            raise NoCluster(f"KUBECONFIG={named!r} names no file; set it to your kubeconfig, or unset it")
        return files
    usual = Path(environ.get("HOME") or Path.home()) / ".kube" / "config"
    return (usual,) if usual.is_file() else None


def _from_kubeconfig(files: tuple[Path, ...], context: str | None, configuration: Any) -> tuple[str | None, str | None]:
    """Fill `configuration`; return the context used and its namespace."""
    named = os.pathsep.join(map(str, files))
    try:
        found = kubeconfig.merged(files)
        chosen = context or found["current-context"]
        meant = kubeconfig.entry(found, "contexts", chosen)
        if not meant:
            there = ", ".join(sorted(one["name"] for one in found["contexts"])) or "none"
            if not chosen:
                raise NoCluster(f"the kubeconfig {named} has no current context; choose one (--context): {there}")
            raise NoCluster(f"context {chosen!r} is not in the kubeconfig {named}; it has {there}")
        _check(found, meant)
        _load(found, chosen, configuration)
        if "://" not in configuration.host:  # as with kubectl
            configuration.host = f"{'https' if configuration.ssl_ca_cert else 'http'}://{configuration.host}"
        # Releases of the library before 36 leave it out.
        configuration.proxy = kubeconfig.entry(found, "clusters", meant.get("cluster")).get("proxy-url")
    except NoCluster:
        raise
    except Exception as failed:  # the library lets errors of YAML, of files and of exec plugins through
        raise NoCluster(
            f"the kubeconfig {named} cannot be used: {failed}; try: kubectl --kubeconfig {files[0]} version"
        ) from failed
    return str(chosen), meant.get("namespace")


def _check(found: dict[str, Any], meant: dict[str, Any]) -> None:
    """Refuse a context that says too little. Raises NoCluster."""
    cluster = kubeconfig.entry(found, "clusters", meant.get("cluster"))
    if not cluster.get("server"):
        raise NoCluster(
            f"the kubeconfig has no server for the cluster {meant.get('cluster')!r}; get one anew, or choose another "
            "context (--context)"
        )
    provider = kubeconfig.entry(found, "users", meant.get("user")).get("auth-provider") or {}
    if (name := provider.get("name")) in _PLUGINS:
        raise NoCluster(
            f"the kubeconfig has credentials by auth-provider {name}, which is no more; have it name the exec plugin "
            f"{_PLUGINS[name]}"
        )


def _load(found: dict[str, Any], context: str, configuration: Any) -> None:
    """Fill `configuration`. Raises NoCluster where the program that is to give credentials gives none."""
    from kubernetes import config

    with _said_by_root() as said:  # all that the library does of a plugin that fails
        config.load_kube_config_from_dict(
            found, context=context, client_configuration=configuration, persist_config=False
        )
    user = kubeconfig.entry(found, "users", kubeconfig.entry(found, "contexts", context).get("user"))
    plugin = user.get("exec")
    if plugin and not configuration.api_key and not configuration.cert_file:
        remedy = " ".join(str(plugin.get("installHint") or "see that it runs, and log in with it").split())
        why = f": {'; '.join(said)}" if said else ""
        raise NoCluster(f"{plugin['command']}, which the kubeconfig names, gave no credentials{why}; {remedy}")


@contextmanager
def _said_by_root() -> Iterator[list[str]]:
    """Take what is said to the root logger meanwhile."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(" ".join(record.getMessage().split()))  # type: ignore[method-assign]
    logging.root.addHandler(handler)
    try:
        yield said
    finally:
        logging.root.removeHandler(handler)


def _from_pod(configuration: Any) -> tuple[str | None, str | None]:
    """Fill `configuration`; return no context, and the namespace of the pod."""
    from kubernetes import config

    try:
        config.load_incluster_config(client_configuration=configuration)
    except Exception as failed:
        raise NoCluster(
            f"this runs in a pod, and its credentials cannot be used: {failed}; give the pod a service account with "
            "automountServiceAccountToken"
        ) from failed
    return None, _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.is_file() else None
