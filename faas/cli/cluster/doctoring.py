"""`faas doctor`: the facts gathered, and what follows from them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from deploy import ServiceSpec, manifest
from deploy.doctor import Facts, Finding, Reach, examine
from deploy.errors import MissingLibrary, NoCluster
from deploy.knative import Cluster
from faas import settings
from faas.cli import listing, progress, registries
from faas.cli.cluster.deploying import places
from faas.cli.cluster.failures import failures
from faas.cli.failure import WORK_FAILED
from faas.cli.where import Where
from faas.deployment import described, plan, published, reach, steps
from faas.deployment.packed import Packed, looked_at
from faas.deployment.plan import Places

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


def run(target: str | None, where: Where, given: Mapping[str, Any], *, as_json: bool) -> int:
    """Examine a cluster. Returns the exit code."""
    meant = places(
        image=given["image"], base=given["base"], store=given["store"], code=None, snapshot=given["snapshot"]
    )
    with failures():
        cluster, problem = _cluster(where)
        namespace = where.namespace or "default" if cluster is None else cluster.namespace
        spec: ServiceSpec | None = None
        batch_size = None
        if target is not None:
            found = _looked_at(target, plan.looked_at(meant))
            around = described.Surroundings(namespace=namespace, s3_places=settings.read().s3_places)
            spec, batch_size = _spec(found, around), described.batch_size(found.bundle)
        looks = _reaches(meant, given)
        if cluster is None:
            facts = Facts(host="", problem=problem, reaches=tuple(look() for look in looks))
        else:
            with cluster:
                facts = cluster.facts(None if spec is None else manifest.service(spec), reach=looks)
    findings = examine(facts, spec, batch_size=batch_size)
    _show([*findings, *_about_places(meant)], as_json=as_json)
    return WORK_FAILED if any(finding.level == "error" for finding in findings) else 0


def _cluster(where: Where) -> tuple[Cluster | None, str]:
    """Return the cluster, or in words why there is none to be asked: there is more to look at."""
    try:
        return where.connect(), ""
    except (NoCluster, MissingLibrary) as error:
        return None, str(error)


def _looked_at(target: str, meant: Places) -> Packed:
    store = settings.read().snapshots
    with progress.steps() as step, tempfile.TemporaryDirectory(prefix="faas-doctor-") as scratch:
        return asyncio.run(looked_at(target, meant, store=store, scratch=Path(scratch), step=step))


def _spec(found: Packed, around: described.Surroundings) -> ServiceSpec:
    return steps.spec_of(found, published.planned(found), around)


def _reaches(meant: Places, given: Mapping[str, Any]) -> list[Callable[[], Reach]]:
    looks: list[Callable[[], Reach]] = []
    connection = registries.connection(given["insecure"], given["ca_file"])
    if meant.base is not None or meant.repository is not None:
        base = meant.base or f"{meant.repository}/{plan.usual_base(described.version())}"
        looks.append(lambda: reach.image(base, connection))
    if meant.repository is not None:
        repository = meant.repository
        looks.append(lambda: reach.repository(repository, connection))
    if meant.store is not None:
        store = meant.store
        looks.append(lambda: reach.store(store))
    return looks


def _about_places(meant: Places) -> list[Finding]:
    if meant.repository is not None or meant.store is not None:
        return []
    what = "neither a repository nor a store is set, so that nothing can be deployed yet"
    return [
        Finding("note", "places", what, "set FAAS_IMAGE to a repository prefix, or FAAS_STORE to s3://bucket/prefix")
    ]


def _show(findings: list[Finding], *, as_json: bool) -> None:
    if as_json:
        listing.write_json([asdict(finding) for finding in findings])
        return
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = click.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
        click.echo(f"{level}{finding.check:<{width}}  {finding.what}")
        if finding.remedy:
            click.echo(f"{'':<8}{'':<{width}}  -> {finding.remedy}")
