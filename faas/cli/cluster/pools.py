"""Pools on a cluster: made, listed, deleted; their functions deployed and deleted."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from deploy import advice, manifest, names
from deploy.errors import Missing
from deploy.knative import Cluster
from faas import settings, spec
from faas.cli import listing, pairs, progress, registries
from faas.cli.cluster import life, services
from faas.cli.cluster.calls import address
from faas.cli.cluster.failures import failures
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.cli.listing import size
from faas.cli.where import Where
from faas.deployment import pool as pools
from faas.deployment import pooled, published
from faas.deployment.packed import distinct
from faas.deployment.pool import COMPONENT, Pool, token_secret
from faas.deployment.rollout import said

_READY_S = 660.0
_SYNC_S = 600.0


def create(name: str, found: Where, given: Mapping[str, Any], *, as_json: bool) -> None:
    """Make a pool or change it, and wait until it is ready; or write its manifest."""
    dry_run = given["dry_run"]
    if dry_run:
        with failures():
            wanted = pools.service_spec(_pool(name, found.namespace or settings.read().namespace or "default", given))
            document = manifest.service(wanted)
            if as_json:
                listing.write_json(document)
            else:
                click.echo(manifest.to_yaml(document), nl=False)
        return
    with found.connected() as cluster:
        pool = _pool(name, cluster.namespace, given)
        connection = registries.connection(given["insecure"], given["ca_file"])
        image, unknown = published.at_present(pool.image, connection)
        wanted = pools.service_spec(replace(pool, image=image))
        document = manifest.service(wanted)
        with progress.steps() as step:
            step(f"asking the cluster whether it takes {wanted.label}")
            cluster.apply(document, dry_run=True)
            _make_token(cluster, token_secret(wanted.label))
            applied = cluster.apply(document)
            ready = cluster.wait_ready(
                wanted.label,
                timeout_s=_READY_S,
                generation=applied.generation,
                on_progress=lambda one: step(said(wanted.label, one)),
            )
    notes = [*unknown, *advice.warnings(wanted, limits_itself=True)]  # each function has its own limits there
    row = {
        "name": name,
        "service": wanted.label,
        "namespace": wanted.namespace,
        "action": applied.action,
        "revision": ready.revision,
        "url": ready.url,
        "functions": wanted.args[-1],
        "notes": notes,
    }
    listing.show([row], _CREATED, as_json=as_json, none="")
    listing.notes(notes)


def show(found: Where, *, as_json: bool) -> None:
    """Write the pools of a namespace."""
    with found.connected() as cluster:
        rows = [asdict(one) for one in cluster.services() if one.component == COMPONENT]
        none = f"no pools in {cluster.namespace}"
    listing.show(rows, {"pool": lambda row: row["name"], **services.STATE}, as_json=as_json, none=none)


def delete(name: str, found: Where, *, yes: bool, as_json: bool) -> None:
    """Delete a pool and its token, and wait until it is gone."""
    with found.connected() as cluster:
        label = names.dns_label(name, cluster.namespace)
        _check_pool(name, cluster)
        if not yes:
            click.confirm(f"delete the pool {label} in {cluster.namespace}?", abort=True, err=True)
        life.delete_service(cluster, label)
        if cluster.secret_value(token_secret(label), settings.TOKEN) is not None:
            cluster.delete_secret(token_secret(label))
        deleted = {"deleted": label, "namespace": cluster.namespace}
    if as_json:
        listing.write_json(deleted)
    else:
        click.echo(f"{label} is deleted; its functions are still in the store")


def deploy(targets: tuple[str, ...], name: str, found: Where, *, as_json: bool) -> None:
    """Put the functions of all targets into a pool, and wait until it serves them."""
    rows = []
    with _reached(name, found) as control, progress.steps() as step, failures():
        functions = _place(control, name)
        with tempfile.TemporaryDirectory(prefix="faas-deploy-") as scratch:
            packed: list[pooled.Packed] = []
            for number, target in enumerate(targets):
                folder, store = Path(scratch, str(number)), settings.read().snapshots
                packed += asyncio.run(pooled.packed(target, functions, store=store, scratch=folder, step=step))
            for one in distinct(packed):
                sent_bytes = pooled.put(one, functions, step)
                step(f"waiting for {name} to serve {one.name}")
                served = _synced(control, one.name)
                rows.append(_row(name, one.name, served) | {"version": one.revision, "sent_bytes": sent_bytes})
    listing.show(rows, _DEPLOYED, as_json=as_json, none="")


def take_out(function: str, name: str, found: Where, *, yes: bool, as_json: bool) -> None:
    """Take a function out of a pool; the calls that it has are answered first."""
    with _reached(name, found) as control, failures():
        functions = _place(control, name)
        if not yes:
            click.confirm(f"delete {function} from the pool {name}?", abort=True, err=True)
        if not pooled.remove(function, functions):
            what = f"the pool {name} has no function {function!r} at {functions}"
            raise Failure(what, "FAAS_URL and FAAS_TOKEN of the pool, then: faas list", CALL_WAS_WRONG)
        control.post("/place/sync", {"bundle": function}, timeout_s=_SYNC_S)
    if as_json:
        listing.write_json({"deleted": function, "pool": name})
    else:
        click.echo(f"{function} is deleted from {name}")


def _pool(name: str, namespace: str, given: Mapping[str, Any]) -> Pool:
    environment = settings.read()
    image, store = given["image"] or environment.base_image, (given["store"] or environment.store or "").rstrip("/")
    if not image:
        raise Failure("no runtime image is named", "set FAAS_BASE_IMAGE, or give --image", CALL_WAS_WRONG)
    if not store.startswith("s3://"):
        raise Failure(
            f"nothing says where the functions of {name} lie", "set FAAS_STORE, or give --store s3://bucket/prefix",
            CALL_WAS_WRONG,
        )  # fmt: skip
    device = spec.Resources(gpu=given["gpu"])
    kind = str(device.gpu or "").partition(":")[0]
    names_ = ("min_instances", "max_instances", "target_inputs", "cpu", "memory", "timeout_s", "secrets")
    return Pool(
        name=name,
        namespace=namespace,
        image=image,
        functions=pools.place(store, names.dns_label(name, namespace)),
        num_gpus=device.num_gpus,
        gpu_kind=kind if device.num_gpus and not kind.isdigit() else None,
        env={**environment.s3_places, **pairs.read("--env", given["env"])},
        service_account=given["service_account"],
        **{one: given[one] for one in names_},
    )


def _check_pool(name: str, cluster: Cluster) -> None:
    """See that there is a pool of that name. Raises Failure."""
    then = "faas pool list names those there are"
    try:
        found = cluster.describe(names.dns_label(name, cluster.namespace))
    except Missing:
        raise Failure(f"there is no pool {name} in {cluster.namespace}", then, CALL_WAS_WRONG) from None
    if found.service.component != COMPONENT:
        raise Failure(f"{name} is a function, not a pool", then, CALL_WAS_WRONG)


def _make_token(cluster: Cluster, secret: str) -> None:
    if cluster.secret_value(secret, settings.TOKEN) is None:
        cluster.put_secret(secret, {settings.TOKEN: secrets.token_urlsafe(32).encode()})


@contextlib.contextmanager
def _reached(name: str, found: Where) -> Iterator[Control]:
    """Give the control interface of a pool: of a service on the cluster, or at a URL with FAAS_TOKEN."""
    environment = settings.read()
    if "://" in name:
        if environment.token is None:
            raise Failure(f"nothing says the token of {name}", "set FAAS_TOKEN", CALL_WAS_WRONG)
        yield Control.at(name, environment.token)
        return
    with found.connected() as cluster:
        label = names.dns_label(name, cluster.namespace)
        _check_pool(name, cluster)
        token = environment.token or (cluster.secret_value(token_secret(label), settings.TOKEN) or b"").decode()
    if not token:
        raise Failure(f"the pool {name} has no token", f"faas pool create {name} makes one, or set FAAS_TOKEN")
    where = address(name, found, None, None)
    yield Control.at(where.url, token, host=where.host)


def _place(control: Control, name: str) -> str:
    functions: str = control.get("/place")["place"]
    if urlsplit(functions).scheme != "s3":
        raise Failure(f"the pool {name} follows {functions}, which cannot be written from here", "put bundles there")
    return functions


def _synced(control: Control, function: str) -> dict[str, Any]:
    """Have a pool look for a function now; returns what it says of it. Raises Failure where it does not serve it."""
    answer = control.post("/place/sync", {"bundle": function}, timeout_s=_SYNC_S)
    served = next((one for one in answer["functions"] if one["name"] == function), None)
    failure = answer["failure"] or (served or {}).get("failure")
    if failure or served is None:
        what = failure or f"the pool found no function {function} at {answer['place']}"
        raise Failure(what, "mend what it says, then deploy again; what it served before goes on", WORK_FAILED)
    return dict(served)


def _row(pool: str, function: str, served: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": function, "pool": pool, "revision": served["revision"], "traffic": served["traffic"],
            "path": f"/f/{function}/", "snapshot": served["snapshot"]}  # fmt: skip


_CREATED: listing.Columns = {
    "pool": lambda row: row["name"],
    "revision": lambda row: row["revision"],
    "was": lambda row: row["action"],
    "url": lambda row: row["url"],
    "functions": lambda row: row["functions"],
}
_DEPLOYED: listing.Columns = {
    "function": lambda row: row["name"],
    "pool": lambda row: row["pool"],
    "revision": lambda row: row["revision"],
    "sent": lambda row: size(row["sent_bytes"]),
    "path": lambda row: row["path"],
}
