"""A Knative Service from a description: a pure mapping, the same document for the same description.

Knative reads its autoscaling settings as text from the annotations of the revision template; on the service itself it
refuses them. The template has no name, so that each change of it makes a new revision and an equal one makes none.
`deploy.advice` tells what a cluster may say to the document.
"""

import math
from typing import Any

from deploy import gpu
from deploy.checks import SNAPSHOT_DIR_ENV, SNAPSHOT_URI_ENV
from deploy.errors import MissingLibrary
from deploy.spec import SERVICE_ANNOTATION, SHORTEST_WINDOW_S, USUAL_WINDOW_S, Resources, Scaling, ServiceSpec
from deploy.volume import SnapshotVolume

Document = dict[str, Any]

_SNAPSHOT, _SCRATCH = "snapshot", "scratch"


def service(spec: ServiceSpec) -> Document:
    """The Knative Service for `spec`, ready for server-side apply."""
    labels = {**spec.labels, "app.kubernetes.io/name": spec.label, "app.kubernetes.io/managed-by": "faas"}
    on_service = {key: value for key, value in spec.annotations.items() if SERVICE_ANNOTATION.fullmatch(key)}
    on_template = {key: value for key, value in spec.annotations.items() if key not in on_service}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {
            "name": spec.label,
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": {**on_service, "faas/name": spec.name},
        },
        "spec": {
            "template": {
                "metadata": {
                    "labels": dict(labels),
                    "annotations": {
                        **on_template,
                        **_autoscaling(spec.scaling),
                        "serving.knative.dev/progress-deadline": f"{spec.timeouts.progress_s}s",
                    },
                },
                "spec": _revision(spec),
            }
        },
    }


def to_yaml(document: Document) -> str:
    """`document` as YAML, keys in the order of the mapping; text stays text for every reader."""
    try:
        import yaml  # an extra, and only this output needs it
    except ImportError as missing:
        raise MissingLibrary("YAML needs the package PyYAML; install it with: pip install 'faas[knative]'") from missing

    class Dumper(yaml.SafeDumper):
        pass

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # The library quotes what it would itself misread; others read 1e3 as a number and y as a bool.
        plain = text[:1].isalpha() and text not in ("y", "Y", "n", "N")
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'")

    Dumper.add_representer(str, represent)
    text: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True)
    return text


def _autoscaling(scaling: Scaling) -> dict[str, str]:
    """Utilisation 100 and no burst capacity: Knative rounds up before it looks for panic, so any lower target would
    start a second instance, and a second GPU, as soon as one runs a full batch.
    """
    scaledown_s = math.ceil(scaling.scaledown_window_s)
    window_s = max(SHORTEST_WINDOW_S, min(scaledown_s, USUAL_WINDOW_S))
    target = scaling.target_inputs if scaling.target_rps is None else scaling.target_rps
    values = {
        "class": "kpa.autoscaling.knative.dev",
        "metric": "concurrency" if scaling.target_rps is None else "rps",
        "target": f"{target:.6f}".rstrip("0").rstrip("."),
        "target-utilization-percentage": "100",
        "target-burst-capacity": "-1",
        "min-scale": str(scaling.min_instances),
        "max-scale": str(scaling.max_instances),
        "window": f"{window_s}s",
        "scale-to-zero-pod-retention-period": f"{max(0, scaledown_s - window_s)}s",
        "scale-down-delay": f"{math.ceil(scaling.scale_down_delay_s)}s",
    }
    if scaling.activation_scale > 1:  # 1 is what Knative does anyway, and refuses to be told
        values["activation-scale"] = str(scaling.activation_scale)
    return {f"autoscaling.knative.dev/{key}": value for key, value in values.items()}


def _revision(spec: ServiceSpec) -> Document:
    revision: Document = {
        "containerConcurrency": spec.scaling.max_inputs,
        "timeoutSeconds": spec.timeouts.revision_s,
        "responseStartTimeoutSeconds": spec.timeouts.request_s,
        # Links would set a variable for each service of the namespace, some of them with names that we read.
        "enableServiceLinks": False,
        "containers": [_container(spec)],
    }
    if spec.service_account is None:
        revision["automountServiceAccountToken"] = False
    else:
        revision["serviceAccountName"] = spec.service_account
    if spec.resources.gpu_kind is not None:
        revision["affinity"] = _node_affinity(spec.resources.gpu_kind_label, spec.resources.gpu_kind)
    if volumes := _volumes(spec):
        revision["volumes"] = volumes
    return revision


def _container(spec: ServiceSpec) -> Document:
    container: Document = {"image": spec.image}
    if spec.command:
        container["command"] = [_literal(word) for word in spec.command]
    if spec.args:
        container["args"] = [_literal(word) for word in spec.args]
    container["ports"] = [{"name": "http1", "containerPort": spec.port}]
    if env := _env(spec):
        container["env"] = env
    if whole_secrets := [secret.name for secret in spec.secrets if secret.key is None]:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in whole_secrets]
    container["resources"] = _resources(spec.resources)
    container.update(_probes(spec))
    container["securityContext"] = _security_context(spec)
    mounts = [] if spec.scratch_path is None else [{"name": _SCRATCH, "mountPath": spec.scratch_path}]
    if spec.snapshot is not None:
        mounts.append(_mount(spec.snapshot))
    if mounts:
        container["volumeMounts"] = mounts
    return container


def _env(spec: ServiceSpec) -> list[Document]:
    entries: dict[str, Document] = {name: {"value": _literal(value)} for name, value in spec.env.items()}
    for secret in spec.secrets:
        if secret.env is not None:
            entries[secret.env] = {"valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
    if spec.snapshot is not None:
        entries[SNAPSHOT_DIR_ENV] = {"value": spec.snapshot.mount_path}
        if spec.snapshot.kind == "emptyDir":
            entries[SNAPSHOT_URI_ENV] = {"value": _literal(spec.snapshot.source)}
    return [{"name": name, **entries[name]} for name in sorted(entries)]


def _literal(text: str) -> str:
    """`text` so that the kubelet's expansion of `$(NAME)` and `$$` gives it back."""
    return text.replace("$", "$$")


def _resources(resources: Resources) -> Document:
    requests = {"cpu": str(resources.cpu), "memory": resources.memory}
    limits = dict(requests)
    if resources.num_gpus:  # a device is asked for by its limit; the API server makes the request equal
        limits[resources.gpu_resource] = str(resources.num_gpus)
    return {"requests": requests, "limits": limits}


def _probes(spec: ServiceSpec) -> Document:
    """What is waited for at startup is that the port is open, which is soon, and not that the instance is ready.

    One that does not become ready in its time ends by itself. Liveness is asked for after that time, as a load may keep
    the interpreter to itself for longer than a probe waits. Readiness is asked for every second, since the kubelet's
    usual period would have whoever waits for it wait for up to ten.
    """

    def get(path: str) -> Document:
        return {"httpGet": {"path": path, "port": spec.port}}

    startup_s = math.ceil(spec.timeouts.startup_timeout_s)
    often = {"initialDelaySeconds": startup_s, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3}
    every_second = {"periodSeconds": 1, "timeoutSeconds": 1}
    probes = {
        "readinessProbe": {**get(spec.probes.ready_path), "successThreshold": 1, **every_second, "failureThreshold": 3},
        "livenessProbe": {**get(spec.probes.live_path), **often},
    }
    if spec.probes.startup:
        probes["startupProbe"] = {**get(spec.probes.live_path), **every_second, "failureThreshold": startup_s}
    return probes


def _security_context(spec: ServiceSpec) -> Document:
    """The `restricted` profile of the Pod Security Standards, on the container: on the pod it is behind a flag."""
    context: Document = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if spec.scratch_path is not None:
        context["readOnlyRootFilesystem"] = True
    if spec.run_as_user is not None:
        context["runAsUser"] = spec.run_as_user
    return context


def _node_affinity(label: str, kind: str) -> Document:
    expression = {"key": label, "operator": "In", "values": gpu.node_label_values(kind)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _volumes(spec: ServiceSpec) -> list[Document]:
    volumes: list[Document] = [] if spec.scratch_path is None else [{"name": _SCRATCH, "emptyDir": {}}]
    if spec.snapshot is not None:
        volumes.append({"name": _SNAPSHOT, **_volume_source(spec.snapshot)})
    return volumes


def _volume_source(snapshot: SnapshotVolume) -> Document:
    if snapshot.kind == "hostPath":
        # A node without the snapshot gets an empty folder, so that the instance starts the slow way and not never.
        return {"hostPath": {"path": snapshot.source, "type": "DirectoryOrCreate"}}
    if snapshot.kind == "pvc":
        return {"persistentVolumeClaim": {"claimName": snapshot.source, "readOnly": True}}
    if snapshot.kind == "image":
        return {"image": {"reference": snapshot.source}}
    return {"emptyDir": {} if snapshot.size_limit is None else {"sizeLimit": snapshot.size_limit}}


def _mount(snapshot: SnapshotVolume) -> Document:
    mount: Document = {"name": _SNAPSHOT, "mountPath": snapshot.mount_path}
    if snapshot.kind != "emptyDir":
        mount["readOnly"] = True
    if snapshot.sub_path is not None:
        mount["subPath"] = snapshot.sub_path
    return mount
