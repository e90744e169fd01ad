"""The steps of a deployment in their order: what is refused is refused before anything is sent or changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deploy import Probes, ServiceSpec, manifest
from deploy.knative import Cluster
from faas.deployment import described, published
from faas.deployment.described import Code, Surroundings
from faas.deployment.packed import Packed
from faas.deployment.published import Means
from faas.deployment.rollout import Brought, Rollout, bring


@dataclass(frozen=True)
class Deployed:
    """One function on a cluster: what it runs as, what went where, and what the user should know."""

    packed: Packed
    code: Code
    brought: Brought
    sent_bytes: int
    notes: tuple[str, ...]


def spec_of(packed: Packed, code: Code, around: Surroundings) -> ServiceSpec:
    """Return the description of a packed function's service. Raises InvalidSpec, SettingError."""
    spec = described.service_spec(
        packed.bundle, packed.revision, code, packed.plan, around=around, digest=packed.digest
    )
    return replace(spec, probes=Probes(startup=not packed.starts_soon))


def rendered(packed: Packed, around: Surroundings) -> manifest.Document:
    """Return the manifest as far as it is known before anything is sent. Raises InvalidSpec, SettingError."""
    return manifest.service(spec_of(packed, published.planned(packed), around))


def deploy(packed: Packed, cluster: Cluster, means: Means, *, around: Surroundings, rollout: Rollout) -> Deployed:
    """Bring a packed function into a cluster.

    Raises:
        ClusterError: the cluster refuses it, or it does not become ready.
        ImageError: its image cannot be made or pushed.
        SnapshotError: S3 does not take it.
        SettingError: a setting cannot be deployed.
    """
    means.step(f"asking the cluster whether it takes {packed.name}")
    cluster.apply(rendered(packed, around), dry_run=True)
    found = published.publish(packed, means)
    document = manifest.service(spec_of(packed, found.code, around))
    brought = bring(cluster, document, rollout, step=means.step)
    notes = (*packed.notes, *found.notes, *brought.notes)
    return Deployed(packed, found.code, brought, found.sent_bytes, notes)
