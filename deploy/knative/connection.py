"""Which cluster, as whom, in which namespace: a kubeconfig, or the credentials of the pod that this runs in.

A kubeconfig comes first, as with kubectl: the files that `KUBECONFIG` lists, or `~/.kube/config`. Tokens, client
certificates and exec plugins are the `kubernetes` package's work, their renewal too.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deploy import names, proxy
from deploy.errors import InvalidName, MissingLibrary, NoCluster

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_USUAL = "~/.kube/config"


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


def _kubeconfig(environ: Mapping[str, str]) -> str | None:
    """The kubeconfig files, in the form of `KUBECONFIG`; None where there are none."""
    named = environ.get("KUBECONFIG", "")
    if named.strip(os.pathsep):
        if not any(Path(part).is_file() for part in named.split(os.pathsep) if part):
            raise NoCluster(f"KUBECONFIG={named!r} names no file; set it to your kubeconfig, or unset it")
        return named
    usual = Path(environ.get("HOME") or Path.home()) / ".kube" / "config"
    return str(usual) if usual.is_file() else None


def _from_kubeconfig(files: str, context: str | None, configuration: Any) -> tuple[str | None, str | None]:
    """Fill `configuration`; return the context used and its namespace."""
    from kubernetes import config

    try:
        contexts, current = config.list_kube_config_contexts(config_file=files)
        known = {entry["name"]: entry for entry in contexts}
        chosen = context or (current or {}).get("name")
        if chosen not in known:
            raise NoCluster(
                f"context {chosen!r} is not in the kubeconfig {files}; it has {', '.join(sorted(known)) or 'none'}"
            )
        config.load_kube_config(
            config_file=files, context=chosen, client_configuration=configuration, persist_config=False
        )
        configuration.proxy = _named_proxy(files, known[chosen]["context"]["cluster"])
    except NoCluster:
        raise
    except Exception as failed:  # the library lets errors of YAML, of files and of exec plugins through
        raise NoCluster(
            f"the kubeconfig {files} cannot be used: {failed}; try: kubectl --kubeconfig {files} version"
        ) from failed
    return str(chosen), known[chosen].get("context", {}).get("namespace")


def _named_proxy(files: str, cluster: str) -> str | None:
    """The `proxy-url` that a kubeconfig gives a cluster; releases of the library before 36 leave it out."""
    from kubernetes.config.kube_config import KubeConfigMerger

    found: str | None = (
        KubeConfigMerger(files).config["clusters"].get_with_name(cluster)["cluster"].safe_get("proxy-url")
    )
    return found


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
