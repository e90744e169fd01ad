"""`faas deploy` to a cluster.

What talks to registries and clusters takes longer to import than all else. It is imported by a thread, while functions
are made ready and packed by processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deploy import checks
from deploy.errors import InvalidSpec
from faas import settings
from faas.cli import listing, pairs, progress, registries
from faas.cli.cluster.failures import failures
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.listing import size
from faas.cli.progress import Step
from faas.cli.where import Where
from faas.deployment import plan as plans
from faas.deployment.described import Surroundings
from faas.deployment.packed import Packed, distinct, packed
from faas.deployment.plan import Places, Way
from faas.deployment.rollout import Rollout
from faas.errors import SettingError

if TYPE_CHECKING:
    from deploy.knative import Cluster
    from faas.deployment.steps import Deployed

S = TypeVar("S")
T = TypeVar("T")

_USUAL_READY_S = 660.0


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the options of the command say, as they were given."""

    traffic: bool
    tag: str | None
    canary: int | None
    watch: bool
    wait: bool
    timeout_s: float | None
    dry_run: bool
    output: str | None
    image: str | None
    base: str | None
    store: str | None
    code: Way | None
    snapshot: str | None
    secrets: tuple[str, ...]
    env: tuple[str, ...]
    service_account: str | None
    insecure: tuple[str, ...]
    ca_file: Path | None

    @property
    def places(self) -> Places:
        """Where things may go: the options before the environment."""
        return places(image=self.image, base=self.base, store=self.store, code=self.code, snapshot=self.snapshot)

    @property
    def rollout(self) -> Rollout:
        """How a change is brought out."""
        return Rollout(
            canary=self.canary,
            traffic=self.traffic,
            tag=self.tag,
            wait=self.wait,
            timeout_s=self.timeout_s or _USUAL_READY_S,
        )

    def around(self, namespace: str) -> Surroundings:
        """What services get besides what their functions say."""
        return Surroundings(
            namespace=namespace,
            env=pairs.read("--env", self.env),
            secrets=self.secrets,
            service_account=self.service_account,
            s3_places=settings.read().s3_places,
        )


def places(**given: Any) -> Places:
    """Return where things may go: what was given before what the environment says."""
    found = settings.read()
    return Places(
        repository=(given["image"] or found.image_repository or "").rstrip("/") or None,
        base=given["base"] or found.base_image,
        store=(given["store"] or found.store or "").rstrip("/") or None,
        code=given["code"],
        snapshot=given["snapshot"],
    )


def run(targets: tuple[str, ...], where: Where, wishes: Wishes, *, as_json: bool) -> int:
    """Deploy to a cluster, or write what would be. Returns the exit code."""
    with failures():
        rollout = _checked(wishes, where.namespace or settings.read().namespace or "default")
        if wishes.dry_run:
            return _look(targets, where, wishes, as_json=as_json)
        deployed: list[Deployed] = []
        with contextlib.ExitStack() as stack:
            try:
                with _ready(targets, wishes.places, lambda: _connect(where)) as (found, connected, step):
                    cluster = stack.enter_context(connected)
                    _deploy(found, cluster, wishes, rollout=rollout, step=step, done=deployed.append)
            finally:  # one that fails hides none of those before it
                if deployed:
                    _show(deployed, as_json=as_json)
            if not wishes.watch:
                return 0
            from faas.cli.cluster import trial

            on_trial = [one for one in deployed if wishes.canary in one.brought.traffic.values()]
            return max((trial.watch(cluster, one.brought.service, as_json=as_json) for one in on_trial), default=0)


def _connect(where: Where) -> Cluster:
    """Return the cluster, and have what a deployment needs imported."""
    from faas.deployment import steps  # noqa: F401 (for those who import it next)

    return where.connect()


def _checked(wishes: Wishes, namespace: str) -> Rollout:
    """Return how a change is brought out, once all that is wrong in the call itself was looked for: before anything
    takes time.
    """
    if wishes.output is not None and not wishes.dry_run:
        raise Failure("-o is for --dry-run", "give both, or --json for what came of it", CALL_WAS_WRONG)
    _check_words(wishes, namespace)
    if wishes.dry_run:
        plans.check(plans.looked_at(wishes.places))
        return wishes.rollout
    try:
        plans.check(wishes.places)
    except SettingError as error:
        if settings.names_cluster():
            raise
        raise SettingError(f"{error}; and no cluster is named: set KUBECONFIG to a kubeconfig") from None
    return wishes.rollout


def _check_words(wishes: Wishes, namespace: str) -> None:
    """Refuse what no service can be given, whatever it is that is deployed. Raises InvalidSpec, SettingError."""
    from deploy import ServiceSpec
    from faas.deployment.described import secret

    repository = wishes.places.repository or plans.NOWHERE
    try:
        checks.image("--image", f"{repository}/function:1")
    except InvalidSpec:
        what = f"{repository!r} (--image or FAAS_IMAGE) is no prefix of images' names"
        raise Failure(
            what, "write it as registry.example/team: lower case, no https://, no tag", CALL_WAS_WRONG
        ) from None
    around = wishes.around(namespace)
    ServiceSpec(
        name="function",
        image=f"{plans.NOWHERE}/function:1",
        namespace=namespace,
        env=around.env,
        secrets=tuple(map(secret, around.secrets)),
        service_account=around.service_account,
    )


def _look(targets: tuple[str, ...], where: Where, wishes: Wishes, *, as_json: bool) -> int:
    """Write the manifests of all functions; nothing is sent anywhere."""
    from deploy import advice, manifest
    from faas.deployment import published, steps

    namespace = where.namespace or settings.read().namespace or "default"
    wanted = plans.looked_at(wishes.places)
    with _ready(targets, wanted, lambda: None) as (found, _, _):
        documents = [steps.rendered(one, wishes.around(namespace)) for one in found]
        for one in found:
            spec = steps.spec_of(one, published.planned(one), wishes.around(namespace))
            listing.notes([*one.notes, *advice.warnings(spec)])
    if wanted != wishes.places:
        listing.notes([f"no place is set for images: {plans.NOWHERE} stands for it; set FAAS_IMAGE or FAAS_STORE"])
    if wishes.output == "json" or (as_json and wishes.output is None):
        listing.write_json(documents[0] if len(documents) == 1 else documents)
    else:
        click.echo("---\n".join(manifest.to_yaml(document) for document in documents), nl=False)
    return 0


def _deploy(
    found: list[Packed],
    cluster: Cluster,
    wishes: Wishes,
    *,
    rollout: Rollout,
    step: Step,
    done: Callable[[Deployed], None],
) -> None:
    from faas.deployment import steps
    from faas.deployment.published import Means

    means = Means(
        connection=registries.connection(wishes.insecure, wishes.ca_file),
        cache=registries.cache(),
        progress=registries.transfers(step),
        step=step,
    )
    around = wishes.around(cluster.namespace)
    for one in found:
        done(steps.deploy(one, cluster, means, around=around, rollout=rollout))


@contextlib.contextmanager
def _ready(targets: tuple[str, ...], wanted: Places, beside: Callable[[], T]) -> Iterator[tuple[list[Packed], T, Step]]:
    """Give the functions of all targets, packed, what `beside` returned meanwhile, and a way to say what is done."""
    with progress.steps() as step, tempfile.TemporaryDirectory(prefix="faas-deploy-") as scratch:
        found, other = asyncio.run(_beside(_packed(targets, wanted, Path(scratch), step), beside))
        yield found, other, step


async def _packed(targets: tuple[str, ...], wanted: Places, scratch: Path, step: Step) -> list[Packed]:
    store, found = settings.read().snapshots, []
    for number, target in enumerate(targets):
        found += await packed(target, wanted, store=store, scratch=scratch / str(number), step=step)
    return distinct(found)


async def _beside(work: Coroutine[Any, Any, S], other: Callable[[], T]) -> tuple[S, T]:
    """Return what comes of both: processes do the work, and a thread the other, whose imports take a while.

    Raises what either raises; the rest is then ended.
    """
    try:
        async with asyncio.TaskGroup() as group:
            thread = group.create_task(asyncio.to_thread(other))
            task = group.create_task(work)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return task.result(), thread.result()


def _show(deployed: list[Deployed], *, as_json: bool) -> None:
    rows = [_row(one) for one in deployed]
    listing.show(rows, _COLUMNS, as_json=as_json, none="")
    for one in deployed:
        listing.notes([*one.brought.overridden, *one.notes])


def _row(deployed: Deployed) -> dict[str, Any]:
    brought, packed_one = deployed.brought, deployed.packed
    return {
        "name": packed_one.name,
        "service": brought.service,
        "namespace": brought.namespace,
        "action": brought.action,
        "revision": brought.revision,
        "version": packed_one.revision,
        "url": brought.url,
        "traffic": brought.traffic,
        "image": deployed.code.image,
        "bundle": deployed.code.bundle,
        "snapshot": packed_one.plan.shipping.kind,
        "sent_bytes": deployed.sent_bytes,
        "ready_s": brought.ready_s,
        "overridden": list(brought.overridden),
        "notes": list(deployed.notes),
    }


_COLUMNS: listing.Columns = {
    "function": lambda row: row["name"],
    "revision": lambda row: row["revision"],
    "was": lambda row: row["action"],
    "traffic": lambda row: f"{row['traffic'].get(row['revision'], 0)}%" if row["revision"] else None,
    "sent": lambda row: size(row["sent_bytes"]),
    "url": lambda row: row["url"],
}
