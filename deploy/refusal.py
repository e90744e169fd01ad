"""What a refusal means to whoever deploys: which field, which of Knative's flags, and what an operator would run.

Knative's webhook answers in sentences. Those about features that are off come in two forms: "must not set the field(s):
spec.template.spec.affinity", and "HostPath volume support is disabled, but found HostPath volume x". Limits read
"expected 0 <= 700 <= 600: spec.template.spec.timeoutSeconds". Every other sentence is passed on as it is.
"""

import re

FLAG_OF_FIELD = {
    "affinity": "kubernetes.podspec-affinity",
    "nodeSelector": "kubernetes.podspec-nodeselector",
    "tolerations": "kubernetes.podspec-tolerations",
    "runtimeClassName": "kubernetes.podspec-runtimeclassname",
    "schedulerName": "kubernetes.podspec-schedulername",
    "priorityClassName": "kubernetes.podspec-priorityclassname",
    "dnsPolicy": "kubernetes.podspec-dnspolicy",
    "dnsConfig": "kubernetes.podspec-dnsconfig",
    "hostAliases": "kubernetes.podspec-hostaliases",
    "initContainers": "kubernetes.podspec-init-containers",
    "securityContext": "kubernetes.podspec-securitycontext",
    "topologySpreadConstraints": "kubernetes.podspec-topologyspreadconstraints",
}
_FLAG_OF_VOLUME = {
    "hostpath volume": "kubernetes.podspec-volumes-hostpath",
    "image volume": "kubernetes.podspec-volumes-image",
    "emptydir volume": "kubernetes.podspec-volumes-emptydir",
    "csi volume": "kubernetes.podspec-volumes-csi",
    "persistent volume claim": "kubernetes.podspec-persistent-volume-claim",
    "persistent volume write": "kubernetes.podspec-persistent-volume-write",
}
_FIELDS = re.compile(r"must not set the field\(s\): ([^\n]+)")
_VOLUMES = re.compile(r"([A-Za-z ]+?) support is disabled")
_TIMEOUT = re.compile(r"expected 0 <= (\d+) <= (\d+): \S*imeoutSeconds")
_REMEDIES = (  # the first that is found in the status and the message
    (r"^401", "; the credentials have run out or are of another cluster: log in again"),
    (
        r"^403.*system:anonymous",
        "; no credentials were sent: the kubeconfig names none that are understood (auth-provider is a thing of the "
        "past, exec plugins take its place): log in again",
    ),
    (r"^403.* is being terminated", "; the namespace is being deleted: wait until it is gone, or choose another"),
    (r"^40[03].* exceeded quota", "; delete what is not needed, or have the operator raise it"),
    (
        r"^40[03].* (?P<bound>maximum|minimum) (?P<what>cpu|memory|ephemeral-storage) usage per",
        "; a LimitRange of the namespace sets that: change {what} in resources=, or have the operator change the "
        "{bound}",
    ),
    (
        r"^40[03].* violates PodSecurity",
        "; that is a policy of the namespace: ask its operator which pods it allows (a folder of the node, as of "
        "--snapshot node-cache, is seldom among it), or choose another namespace",
    ),
    (r"^40[03] admission webhook", "; change what it names, or ask the operator about that policy"),
    (r"^403", "; have an operator grant it, docs/knative.md lists the rights that faas needs"),
    (r'^404 namespaces "(?P<name>[^"]*)" not found', "; make it: kubectl create namespace {name}, or choose another"),
    (
        r"^404.*(page not found|could not find the requested resource)",
        "; the cluster does not know such objects: have its operator install Knative Serving, faas doctor looks",
    ),
    (
        r"failed calling webhook",
        "; see that its pods run: kubectl get pods -n knative-serving, then give the same command again",
    ),
    (r"^(429|502|503|504)|etcdserver: ", "; give the same command again a little later"),
)


def flags_named(message: str) -> tuple[str, ...]:
    """The flags of `config-features` that a refusal is about, in its order, none twice."""
    found = []
    for fields in _FIELDS.findall(message):
        last_parts = [part.rpartition(".")[2].partition("[")[0] for part in re.split(r",\s*", fields.strip())]
        found += [FLAG_OF_FIELD[part] for part in last_parts if part in FLAG_OF_FIELD]
    for volume in _VOLUMES.findall(message):
        words = volume.strip().lower()
        found += [flag for ending, flag in _FLAG_OF_VOLUME.items() if words.endswith(ending)]
    return tuple(dict.fromkeys(found))


def command_for(flags: tuple[str, ...]) -> str:
    """What an operator runs to turn `flags` on."""
    data = ",".join(f'"{flag}":"enabled"' for flag in flags)
    return f"kubectl patch configmap config-features -n knative-serving --type merge -p '{{\"data\":{{{data}}}}}'"


def explain(doing: str, status: int, message: str) -> str:
    """One sentence for people: what was being done, what was answered, and what to do where that is known."""
    if flags := flags_named(message):
        plural = "s" if len(flags) > 1 else ""
        return (
            f"this cluster refuses the service because the feature flag{plural} {', '.join(flags)} "
            f"{'are' if plural else 'is'} off; an operator turns {'them' if plural else 'it'} on with: "
            f"{command_for(flags)} (it said: {_plain(message)})"
        )
    if timeout := _TIMEOUT.search(message):
        return (
            f"this cluster allows a request {timeout[2]} s and the service asks for {timeout[1]} s; lower timeout_s or "
            f"startup_timeout_s, or have an operator set max-revision-timeout-seconds to {timeout[1]} or more in the "
            "config map config-defaults of knative-serving, and the activator's terminationGracePeriodSeconds with it"
        )
    said = _plain(message)
    found = ((re.search(pattern, f"{status} {said}"), then) for pattern, then in _REMEDIES)
    remedy = next((then.format(**match.groupdict()) for match, then in found if match), "")
    return f"{doing} was answered {status}: {said}{remedy}"


def _plain(message: str) -> str:
    """The answer on one line, without the name of Knative's own webhook before it; another's stands for its policy."""
    text = re.sub(r'admission webhook "[^"]*knative[^"]*" denied the request: (validation failed: )?', "", message)
    text = text.replace("validation callback failed: dry run failed with ", "it tried a pod, and ")
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
