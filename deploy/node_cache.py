"""What keeps pinned snapshots on the nodes of a cluster, as documents for an operator to apply. Pure.

A pod on each node fetches what a store's pins name into a folder of the node, which functions mount read-only. It needs
more than a function does, each for a reason:

- `hostPath`: the folder is the node's, since it outlives pods and is shared by them.
- `hostPID`: what a process has mapped is not removed, and only who sees the processes of a node knows. No right goes
  with it: the pod runs as the user that functions run as, whose maps alone it can read.
- one init container as root, with the one capability that it takes to give the folder to that user.
- the right to read and label nodes. RBAC cannot confine it to the pod's own node; the process never names another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy import checks, names, quantity
from deploy.errors import InvalidName, InvalidSpec
from deploy.manifest import Document
from deploy.spec import SecretRef

NAME = "faas-node-cache"
LABEL_PREFIX = "faas.dev/snapshot."
READY = "ready"
FOLDER = "/var/lib/faas/snapshots"
"""The node's folder, the same that services mount."""
_INSIDE = "/cache"
PORT = 9404
"""Where it serves its metrics."""
_USER = 65532
"""The user of the runtime image."""
_METRICS = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT), "prometheus.io/path": "/metrics"}


@dataclass(frozen=True, kw_only=True)
class NodeCacheSpec:
    """What the cache is to be: `image` a runtime image, `store` that of snapshots and pins, `budget` what a node holds.

    `env` and `secrets` are what the store needs; `node_selector` confines it to the nodes with these labels.
    """

    image: str
    store: str
    namespace: str = "faas-system"
    budget: str = "100Gi"
    folder: str = FOLDER
    cpu: str = "100m"
    memory: str = "1Gi"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[SecretRef, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.image("image", self.image)
        if not names.is_namespace(self.namespace):
            raise InvalidName("namespace", self.namespace, "is not a DNS label", "use a-z, 0-9 and hyphens, at most 63")
        if not self.store.startswith("s3://"):
            raise InvalidSpec("store", self.store, "is not in S3", "write it as s3://bucket/prefix")
        quantity.memory("budget", self.budget)
        quantity.memory("memory", self.memory)
        object.__setattr__(self, "cpu", quantity.cpu("cpu", self.cpu))
        checks.absolute_path("folder", self.folder)
        for variable in self.env:
            checks.env_name(f"env[{variable!r}]", variable)
        for key in self.node_selector:
            if not names.is_qualified(key):
                raise InvalidSpec("node_selector", key, "is not a key of a label", "write it as name or domain/name")


def label(digest: str) -> str:
    """The key of the label that says of a node that it holds a snapshot; `digest` is the short one."""
    return LABEL_PREFIX + digest


def documents(spec: NodeCacheSpec) -> list[Document]:
    """The objects, in the order in which they are applied; the namespace is to be there."""
    return [_account(spec), _role(), _binding(spec), _daemon_set(spec)]


def _metadata(spec: NodeCacheSpec | None = None) -> Document:
    found: Document = {"name": NAME, "labels": _labels()}
    return found if spec is None else {"name": NAME, "namespace": spec.namespace, "labels": _labels()}


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "faas"}


def _account(spec: NodeCacheSpec) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(spec),
        "automountServiceAccountToken": False,
    }


def _role() -> Document:
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(),
        "rules": [rule],
    }


def _binding(spec: NodeCacheSpec) -> Document:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": spec.namespace}],
    }


def _daemon_set(spec: NodeCacheSpec) -> Document:
    selector = {"app.kubernetes.io/name": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(spec),
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": _labels(), "annotations": dict(_METRICS)}, "spec": _pod(spec)},
        },
    }


def _pod(spec: NodeCacheSpec) -> Document:
    pod: Document = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "hostPID": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        # Nodes with GPUs are usually tainted, and those above all are to have their snapshots.
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [_owner(spec)],
        "containers": [_container(spec)],
        "volumes": [
            {"name": "cache", "hostPath": {"path": spec.folder, "type": "DirectoryOrCreate"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    if spec.node_selector:
        pod["nodeSelector"] = dict(spec.node_selector)
    return pod


def _owner(spec: NodeCacheSpec) -> Document:
    """Give the folder, which the kubelet makes root's, to the user that the rest runs as."""
    code = f"import os; os.chown({_INSIDE!r}, {_USER}, {_USER})"
    return {
        "name": "owner",
        "image": spec.image,
        "command": ["python3", "-c", code],
        "resources": _resources("50m", "64Mi"),
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
        },
        "volumeMounts": [{"name": "cache", "mountPath": _INSIDE}],
    }


def _container(spec: NodeCacheSpec) -> Document:
    env: list[Document] = [{"name": name, "value": value} for name, value in sorted(spec.env.items())]
    env += [
        {"name": one.env, "valueFrom": {"secretKeyRef": {"name": one.name, "key": one.key}}}
        for one in spec.secrets
        if one.key is not None
    ]
    env.append({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    container: Document = {
        "name": "cache",
        "image": spec.image,
        "command": ["faas"],
        "args": ["node-cache", "run", spec.store, *_options(spec)],
        "env": env,
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "resources": _resources(spec.cpu, spec.memory),
        "livenessProbe": {"httpGet": {"path": "/livez", "port": PORT}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 10},
        "securityContext": {
            "runAsUser": _USER,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "cache", "mountPath": _INSIDE}, {"name": "scratch", "mountPath": "/tmp"}],
    }
    if whole := [one.name for one in spec.secrets if one.key is None]:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in whole]
    return container


def _options(spec: NodeCacheSpec) -> list[str]:
    return ["--folder", _INSIDE, "--budget", spec.budget, "--node", "$(NODE_NAME)"]


def _resources(cpu: str, memory: str) -> Document:
    """CPU has no limit: what a pull takes while nobody else wants it makes it shorter."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
