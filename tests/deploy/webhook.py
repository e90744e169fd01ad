"""What Knative's admission webhook and the API server say to a Service, for the fields that `deploy` writes.

Written from the published rules (Knative Serving of August 2026), not a replacement for a cluster: it knows no field
that `deploy` does not write, and reports one as unknown.
"""

import re
from typing import Any

TEMPLATE_KEYS = {
    "containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "enableServiceLinks", "containers",
    "automountServiceAccountToken", "serviceAccountName", "affinity", "volumes",
}  # fmt: skip
CONTAINER_KEYS = {
    "image", "command", "args", "ports", "env", "envFrom", "resources", "readinessProbe", "livenessProbe",
    "startupProbe", "securityContext", "volumeMounts",
}  # fmt: skip
PROBE_KEYS = {
    "httpGet",
    "periodSeconds",
    "timeoutSeconds",
    "failureThreshold",
    "successThreshold",
    "initialDelaySeconds",
}
FLAG_OF_VOLUME = {
    "hostPath": "kubernetes.podspec-volumes-hostpath",
    "persistentVolumeClaim": "kubernetes.podspec-persistent-volume-claim",
    "image": "kubernetes.podspec-volumes-image",
    "emptyDir": None,
}
_DISABLED = {
    "hostPath": "HostPath volume support is disabled, but found HostPath volume {name}",
    "image": "Image volume support is disabled, but found Image volume {name}",
    "persistentVolumeClaim": "Persistent volume claim support is disabled, but found persistent volume claim {claim}",
}
SCALING = "autoscaling.knative.dev/"


def refusals(service: dict[str, Any], *, flags: tuple[str, ...] = (), max_timeout_s: int = 600) -> list[str]:
    """Every reason for which a cluster with these feature flags and this longest timeout refuses `service`."""
    template = service["spec"]["template"]
    return [
        *_metadata(service["metadata"]),
        *_annotations(template["metadata"]["annotations"]),
        *_labels(template["metadata"]["labels"]),
        *_revision(template["spec"], flags, max_timeout_s),
    ]


def _metadata(metadata: dict[str, Any]) -> list[str]:
    found = _labels(metadata["labels"])
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", metadata["name"]):
        found.append("metadata.name: not a DNS-1035 label")
    found += [f"{key}: belongs on the template" for key in metadata["annotations"] if key.startswith(SCALING)]
    return found + [f"{key}: not text" for key, value in metadata["annotations"].items() if not isinstance(value, str)]


def _labels(labels: dict[str, Any]) -> list[str]:
    pattern = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
    return [
        f"label {key}" for key, value in labels.items() if not isinstance(value, str) or not pattern.fullmatch(value)
    ]


def _seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)s", text)
    assert match is not None, f"{text!r} is not a number of whole seconds"
    return int(match[1])


def _annotations(annotations: dict[str, Any]) -> list[str]:
    found = [f"{key}: not text" for key, value in annotations.items() if not isinstance(value, str)]
    if found:
        return found
    values = {key.removeprefix(SCALING): value for key, value in annotations.items() if key.startswith(SCALING)}
    least, most = int(values["min-scale"]), int(values["max-scale"])
    start = values.get("activation-scale")
    burst = float(values["target-burst-capacity"])
    rules = {
        "min-scale above max-scale": most != 0 and least > most,
        "negative scale": least < 0 or most < 0,
        "activation-scale": start is not None and (int(start) < 2 or int(start) < least or 0 < most < int(start)),
        "target": float(values["target"]) < 0.01,
        "target-utilization-percentage": not 1 <= float(values["target-utilization-percentage"]) <= 100,
        "target-burst-capacity": burst < 0 and burst != -1,
        "window": not 6 <= _seconds(values["window"]) <= 3600,
        "retention": _seconds(values["scale-to-zero-pod-retention-period"]) > 3600,
        "scale-down-delay": _seconds(values["scale-down-delay"]) > 3600,
        "metric": values["metric"] not in ("concurrency", "rps"),
        "progress-deadline": _seconds(annotations["serving.knative.dev/progress-deadline"]) <= 0,
    }
    return [rule for rule, broken in rules.items() if broken]


def _revision(revision: dict[str, Any], flags: tuple[str, ...], max_timeout_s: int) -> list[str]:
    found = [f"must not set the field(s): spec.template.spec.{key}" for key in revision.keys() - TEMPLATE_KEYS]
    if not 0 <= (timeout_s := revision["timeoutSeconds"]) <= max_timeout_s:
        found.append(f"expected 0 <= {timeout_s} <= {max_timeout_s}: spec.template.spec.timeoutSeconds")
    if not 0 <= revision["containerConcurrency"] <= 1000:
        found.append("containerConcurrency out of bounds")
    if revision.get("automountServiceAccountToken"):
        found.append("automountServiceAccountToken: only false is allowed")
    if "affinity" in revision and "kubernetes.podspec-affinity" not in flags:
        found.append("must not set the field(s): spec.template.spec.affinity")
    volumes = {volume["name"]: volume for volume in revision.get("volumes", [])}
    for name, volume in volumes.items():
        (source,) = volume.keys() - {"name"}
        if FLAG_OF_VOLUME[source] is not None and FLAG_OF_VOLUME[source] not in flags:
            found.append(_DISABLED[source].format(name=name, claim=volume.get(source, {}).get("claimName")))
    (container,) = revision["containers"]
    return found + _container(container, volumes)


def _container(container: dict[str, Any], volumes: dict[str, Any]) -> list[str]:
    found = [f"must not set the field(s): {key}" for key in container.keys() - CONTAINER_KEYS]
    (port,) = container["ports"]
    if port["containerPort"] in (8008, 8012, 8013, 8022, 9090, 9091) or port["name"] not in ("http1", "h2c"):
        found.append("ports")
    names = [entry["name"] for entry in container.get("env", [])]
    found += [f"env {name}" for name in names if name in ("PORT", "K_SERVICE", "K_REVISION") or names.count(name) > 1]
    found += [
        f"env {entry['name']}: not text"
        for entry in container.get("env", [])
        if not isinstance(entry.get("value", ""), str)
    ]
    mounts = {mount["name"]: mount for mount in container.get("volumeMounts", [])}
    if mounts.keys() != volumes.keys():
        found.append("volumes and volumeMounts differ")
    for name, mount in mounts.items():
        if "emptyDir" not in volumes[name] and not mount.get("readOnly"):
            found.append(f"volume mount {name} should be readOnly")
    for kind in ("readinessProbe", "livenessProbe", "startupProbe"):
        found += _probe(kind, container[kind]) if kind in container else []
    return found + _resources(container["resources"])


def _probe(kind: str, probe: dict[str, Any]) -> list[str]:
    found = [f"{kind}.{key}" for key in probe.keys() - PROBE_KEYS]
    if not isinstance(probe["httpGet"].get("port"), int):
        found.append(f"{kind}: port is required")
    if (
        kind == "readinessProbe"
        and "periodSeconds" not in probe
        and probe.keys() & {"timeoutSeconds", "failureThreshold"}
    ):
        found.append(f"{kind}: not allowed without a period")
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        found.append(f"{kind}: successThreshold must be 1")
    return found


def _resources(resources: dict[str, Any]) -> list[str]:
    limits, requests = resources["limits"], resources["requests"]
    found = [f"{key}: not text" for key, value in {**requests, **limits}.items() if not isinstance(value, str)]
    devices = [key for key in requests.keys() | limits.keys() if "/" in key]
    return found + [
        f"{key}: a whole number, in limits, and no other request"
        for key in devices
        if not limits.get(key, "").isdigit() or requests.get(key, limits.get(key)) != limits.get(key)
    ]
