"""What to do about a trouble whose own words do not say it. Pure: from those words, as Kubernetes has them."""

import re
from collections.abc import Iterable, Sequence

from deploy.knative.progress import Trouble
from deploy.knative.resources import REVISION_LABEL, Document, label

_OF_PULLING = re.compile(r"^\w*ImagePull|^RegistryUnavailable|Unable to fetch image|[Ff]ailed to pull image")
_OTHER_MACHINE = re.compile(r"exec format error|no match(ing)? (for platform|manifest)")
_THEIR_MACHINE = (
    "the image is for another machine than the nodes are: have the runtime image, and with it the function's, for "
    "theirs (faas image runtime --platform linux/arm64)"
)

_PULLING = (  # the first that is found in the message counts
    (
        r"HTTP response to HTTPS client",
        "the registry speaks plain HTTP, and the nodes ask by HTTPS: have the operator tell their container runtime, "
        "or give the registry a certificate",
    ),
    (
        r"x509|certificate",
        "the cluster does not trust the registry's certificate: have the operator give the nodes, and Knative's "
        "controller, that of its authority",
    ),
    (
        r"toomanyrequests|\b429\b|rate limit",
        "the registry allows no more for now: wait, or have the nodes log in there",
    ),
    (
        r"\b40[13]\b|unauthorized|denied|authentication required|no basic auth|authorization failed",
        "have the registry's credentials put into the namespace's service account (imagePullSecrets)",
    ),
    (
        r"no such host|i/o timeout|deadline exceeded|connection refused|connection reset|network is unreachable",
        "the cluster does not reach the registry by that name: name it in FAAS_IMAGE as the cluster knows it "
        "(localhost there is each node itself), or have the operator let it through",
    ),
    (_OTHER_MACHINE.pattern, _THEIR_MACHINE),
)
_OTHERS = (
    (r'secret "(?P<name>[^"]+)" not found', "make it: faas secret create {name} KEY=VALUE"),
    (
        r"couldn't find key (?P<key>\S+) in Secret [^/\s]+/(?P<name>[\w.-]+)",
        "set it: faas secret create {name} {key}=VALUE",
    ),
    (
        r'service ?account "?(?P<name>[\w.-]+)"? not found',
        "make it: kubectl create serviceaccount {name}, or give another --service-account",
    ),
    (
        r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
        "name one that is there: --snapshot pvc:NAME (kubectl get pvc lists them)",
    ),
    (
        r"unbound (immediate )?PersistentVolumeClaims",
        "the claim has no volume yet: kubectl describe pvc says what it waits for",
    ),
    (
        r'exec: "faas": executable file not found',
        "the image that functions are put on (FAAS_BASE_IMAGE, --base) is no runtime image: faas image runtime makes "
        "one, and faas doctor tells",
    ),
    (
        r'failed to mkdir ""',
        "the nodes' container runtime has no image volumes (containerd has them from 2.1): take another --snapshot",
    ),
    (r"exceeded quota", "free some, ask for less, or have the operator raise it: faas doctor tells how much there is"),
    (
        r"(?P<bound>maximum|minimum) (?P<what>cpu|memory|ephemeral-storage)\b.* per (Container|Pod)",
        "a LimitRange of the namespace sets that: change {what} in resources=, or have the operator change the {bound}",
    ),
    (
        r"violates PodSecurity|security context constraint",
        "that is a policy of the namespace: ask its operator which pods it allows (a folder of the node, as of "
        "--snapshot node-cache, is seldom among it), or choose another namespace",
    ),
    (
        r"runAsNonRoot|run as root",
        "instances never run as root: the image has to name another user by its number (USER 65532), as those of "
        "faas image runtime do",
    ),
    (
        r"we do not own|\bNotOwned\b|not owned by",
        "something else in the namespace has this name: give the function another (name=...), or have that deleted",
    ),
    (r'Revision "[^"]*" referenced in traffic not found', "send its calls elsewhere: faas promote"),
    (
        r"IngressNotConfigured|Ingress has not yet been reconciled|load balancer",
        "Knative's ingress does not do its part: faas doctor looks at it, and its operator at its controller's log",
    ),
)

_NO_NODE = (
    (
        r"Insufficient (?P<what>[\w./-]*\w)",
        "no node has so much of {what} free: ask for less in resources=, or have the operator add a node (faas doctor "
        "TARGET tells what nodes offer)",
    ),
    (
        r"node affinity/selector",
        "no node has the GPU that resources= names: kubectl get nodes -L nvidia.com/gpu.product shows those there are",
    ),
    (r"untolerated taint", "a taint keeps nodes for others: ask the operator which pods they take"),
)


def hint(trouble: Trouble, revision: str | None, pods: Iterable[Document], log: Sequence[str] = ()) -> str:
    """What to do about a trouble, after a semicolon; empty where nothing is known. `log` ends as its pod's log does."""
    said = f"{trouble.reason} {trouble.message}"
    if _OF_PULLING.search(said) and (then := _first(_PULLING, trouble.message)) is not None:
        return f"; {then}"
    if (then := _first(_OTHERS, said)) is not None:
        return f"; {then}"
    if any(_OTHER_MACHINE.search(line) for line in (trouble.message, *log)):
        return f"; {_THEIR_MACHINE}"
    num_others = sum(label(pod, REVISION_LABEL) != revision for pod in pods)
    if trouble.reason != "Unschedulable":
        return ""
    if num_others:
        return (
            f"; other revisions keep {num_others} of its instances until this one is ready: have room for one more, "
            "or deploy while the function is at zero (min_instances=0)"
        )
    then = _first(_NO_NODE, trouble.message)
    return "" if then is None else f"; {then}"


def _first(known: Iterable[tuple[str, str]], said: str) -> str | None:
    for pattern, then in known:
        if (found := re.search(pattern, said, re.IGNORECASE)) is not None:
            return then.format(**found.groupdict())
    return None
