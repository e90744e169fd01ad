"""From a bundled function to the plain description of a service that `deploy` renders. Pure."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Final

from deploy import Resources, Scaling, SecretRef, ServiceSpec, SnapshotVolume, Timeouts
from faas import settings, spec
from faas.bundle.manifest import Bundle
from faas.deployment.plan import BUNDLE, NODE_CACHE, Plan
from faas.errors import SettingError

REVISION_LABEL: Final = "faas/revision"
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_OWN: Final = ("PORT", settings.BUNDLE, settings.HOME, settings.SNAPSHOT_DIR, settings.SNAPSHOT_URI)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a service gets besides what its function says: `env` goes before the function's own.

    `secrets` are written as a function writes them. `s3_places` are variables that say where S3 is.
    """

    namespace: str = "default"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    service_account: str | None = None
    s3_places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Code:
    """What runs: the `image`, and the `bundle` in it or in S3."""

    image: str
    bundle: str = BUNDLE


def service_spec(
    bundle: Bundle, revision: str, code: Code, plan: Plan, *, around: Surroundings, digest: str | None = None
) -> ServiceSpec:
    """Describe the service of a bundled function; equal for what is equal, so that nothing changes by doing it again.

    revision: the short name of code, settings and state that instances report as X-Model-Version
    digest: of the frozen state, where it is delivered

    Raises:
        InvalidSpec: a value cannot be deployed; names the option.
        SettingError: a secret or a volume is not written as it should be.
    """
    if bundle.spec["volumes"]:
        raise SettingError(
            f"volumes={bundle.spec['volumes']!r} of {bundle.name}: a service has no volume but its snapshot's; read "
            "from S3, or keep what is read in the snapshot"
        )
    calls, scaling = spec.Calls(**bundle.spec["calls"]), spec.Scaling(**bundle.spec["scaling"])
    volume = _volume(plan, bundle.name, digest)
    return ServiceSpec(
        name=bundle.name,
        namespace=around.namespace,
        image=code.image,
        command=("faas",),
        args=("serve", "--bundle", code.bundle),
        env=_env(bundle, plan, around),
        secrets=tuple(secret(text) for text in dict.fromkeys((*bundle.spec["secrets"], *around.secrets))),
        resources=_resources(spec.Resources(**bundle.spec["resources"])),
        scaling=Scaling(
            min_instances=scaling.min_instances,
            max_instances=scaling.max_instances,
            target_inputs=bundle.limits["target_inputs"],
            target_rps=scaling.target_rps,
            max_inputs=bundle.limits["max_inputs"],
            scaledown_window_s=scaling.scaledown_window_s,
            activation_scale=_activation(scaling),
        ),
        timeouts=Timeouts(
            timeout_s=calls.timeout_s,
            startup_timeout_s=max(1.0, calls.startup_timeout_s),
            grace_period_s=calls.grace_period_s,
        ),
        labels={REVISION_LABEL: revision},
        service_account=around.service_account,
        snapshot=volume,
        # A first volume costs each cold start .3 s: so often does the kubelet look whether those of a pod are mounted.
        scratch_path=None if volume is None else "/tmp",
    )


def batch_size(bundle: Bundle) -> int | None:
    """Return the largest batch of a bundled function, None where it takes calls one by one."""
    batching: Mapping[str, Any] | None = bundle.spec["batching"]
    return None if batching is None else int(batching["max_batch_size"])


def notes(bundle: Bundle) -> list[str]:
    """Return what of a function has another effect on a cluster than on one box, in sentences for its user."""
    scaling = spec.Scaling(**bundle.spec["scaling"])
    found = []
    if scaling.buffer_instances:
        found.append(
            f"{bundle.name}: Knative keeps no spare instances, so buffer_instances={scaling.buffer_instances} does "
            "nothing there; min_instances keeps some up"
        )
    if scaling.keep_alive != "fixed":
        found.append(f"{bundle.name}: Knative has a fixed window, so keep_alive={scaling.keep_alive!r} does nothing")
    return found


def secret(text: str) -> SecretRef:
    """Return the secret that is written as `name` (all its keys) or `VARIABLE=name/key` (one of them).

    Raises:
        SettingError: it is written otherwise.
        InvalidSpec: a name in it is none.
    """
    variable, equals, place = text.rpartition("=")
    name, slash, key = place.partition("/")
    if bool(equals) != bool(slash) or (equals and not (variable and key)) or not name:
        raise SettingError(f"secret {text!r}: write the name of a secret, or VARIABLE=name/key for one key of it")
    return SecretRef(name=name, key=key or None, env=variable or None)


def version() -> str:
    """Return what the usual runtime image is called by: this framework's version and Python's."""
    major, minor, _ = platform.python_version_tuple()
    return f"{metadata.version('faas')}-py{major}.{minor}"


def _env(bundle: Bundle, plan: Plan, around: Surroundings) -> dict[str, str]:
    own = {**bundle.spec["env"], **around.env}
    for name in _OWN:
        if name in own:
            raise SettingError(f"{name} is set by the deployment itself; take it out of env= and --env")
    threads = str(max(1, math.ceil(bundle.spec["resources"]["cpu"])))
    made = {} if "OMP_NUM_THREADS" in own else dict.fromkeys(_THREADS, threads)
    # What a function calls by f.remote lies in the same namespace, at the names that Knative gives inside a cluster.
    made[settings.URL] = f"http://{{name}}.{around.namespace}.svc.cluster.local"
    uses_s3 = plan.way == "store" or plan.shipping.kind == "s3" or _reads_s3(bundle)
    return {**made, **(around.s3_places if uses_s3 else {}), **own}


def _reads_s3(bundle: Bundle) -> bool:
    versions = bundle.spec.get("versions") or {}
    return bool(bundle.spec["snapshot"]["uri"]) or str(versions.get("source") or "").startswith("s3://")


def _resources(wanted: spec.Resources) -> Resources:
    kind = str(wanted.gpu or "").partition(":")[0]
    return Resources(
        cpu=_thousandths(wanted.cpu),
        memory=str(wanted.memory),
        num_gpus=wanted.num_gpus,
        gpu_kind=kind if wanted.num_gpus and not kind.isdigit() else None,
    )


def _thousandths(cpu: float) -> float:
    """Return an amount of CPU that Kubernetes can write, at least as much as was asked for."""
    return math.ceil(round(cpu * 1000, 6)) / 1000


def _activation(scaling: spec.Scaling) -> int:
    """Return how many a wake-up starts: Knative refuses fewer than there always are, which start anyway."""
    return 1 if scaling.activation_scale < scaling.min_instances else scaling.activation_scale


def _volume(plan: Plan, name: str, digest: str | None) -> SnapshotVolume | None:
    if plan.shipping.kind == "s3":
        at = f"@{digest}" if digest else ""
        return SnapshotVolume(kind="emptyDir", source=f"{plan.store}/{name}{at}")
    if plan.shipping.kind == "node-cache":
        return SnapshotVolume(kind="hostPath", source=NODE_CACHE)
    if plan.shipping.source is not None:
        return SnapshotVolume(kind="image" if plan.shipping.kind == "oci" else "pvc", source=plan.shipping.source)
    return None
