"""`faas versions`: what a function's instances hold of the versions of its state, and how that is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from faas import names
from faas.cli import listing
from faas.cli import store as stores
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.engine.versions.labels import STABLE
from faas.engine.versions.policies import number_of
from faas.spec.versions import TRANSITIONS, VERSION_MODES, VERSION_POLICIES

__all__ = ["STABLE", "command", "label_in", "number", "tell"]

LATEST = "latest"


@click.command()
@click.argument("name")
@click.option("--policy", type=click.Choice(VERSION_POLICIES), help="Which versions instances hold.")
@click.option("--num", type=click.IntRange(1), help="How many of the latest.")
@click.option("--specific", metavar="N,N", help="The versions that the policy specific names.")
@click.option("--mode", type=click.Choice(VERSION_MODES), help="Whether the source is followed, or waits to be asked.")
@click.option("--transition", type=click.Choice(TRANSITIONS), help="What is done first: load or unload.")
@listing.option
def command(
    name: str,
    policy: str | None,
    num: int | None,
    specific: str | None,
    mode: str | None,
    transition: str | None,
    as_json: bool,
) -> None:
    """Show the versions of the function NAME and which of them its instances hold, or change what they are to hold."""
    wanted: dict[str, Any] = {"policy": policy, "num": num, "mode": mode, "transition": transition}
    if specific is not None:
        wanted |= {"policy": "specific", "versions": _named(specific, policy)}
    elif policy == "specific":
        raise Failure("--policy specific does not say which", "add --specific N,N with their numbers", CALL_WAS_WRONG)
    changes = {key: value for key, value in wanted.items() if value is not None}
    path, control = f"/functions/{names.label(name)}/versions", Control.named()
    found = control.post(f"{path}/settings", changes, timeout_s=None) if changes else control.get(path)
    if as_json:
        listing.write_json(found)
        return
    listing.show(
        _rows(found),
        {
            "version": lambda row: row["version"],
            "labels": lambda row: ", ".join(row["labels"]),
            "default": lambda row: f"{row['default']} of {row['of']}" if row["default"] else None,
            "ready": lambda row: f"{row['ready']}/{row['of']}",
            "state": lambda row: row["state"],
            "reason": lambda row: row["reason"],
        },
        as_json=False,
        none=f"no versions at {found['source']}",
    )


def _named(specific: str, policy: str | None) -> list[int]:
    """Return the versions that `--specific` names."""
    if policy not in (None, "specific"):
        raise Failure(
            f"--policy {policy} holds no versions by their numbers", "leave out --policy, or --specific", CALL_WAS_WRONG
        )
    found = [number(one) for one in specific.split(",")]
    if None in found:
        raise Failure(
            f"--specific {specific}: name numbers", f"--policy {LATEST} --num N holds the latest N", CALL_WAS_WRONG
        )
    return [one for one in found if one is not None]


def number(text: str) -> int | None:
    """Return the version that a user writes; None is the latest.

    Raises:
        Failure: it is none.
    """
    if text == LATEST:
        return None
    found = number_of(text.strip().removeprefix("v"))
    if found is None:
        raise Failure(f"{text!r} is no version: write a number, or {LATEST}", "faas versions NAME", CALL_WAS_WRONG)
    return found


def tell(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Say where a function's labels lead now."""
    if as_json:
        listing.write_json(found)
        return
    labels = ", ".join(f"{label} {number}" for label, number in sorted(found["labels"].items()))
    click.echo(f"{found['name']}: {labels or 'the latest version'}")


def label_in(place: str, name: str, label: str, to: int | None) -> dict[str, Any]:
    """Have a label lead to a version in the file of a store, for whoever follows it; returns what is there then.

    Raises:
        Failure: there is no such version.
    """
    from faas.engine.versions import plan, source
    from faas.versions import folder_of
    from snapshot.s3_address import is_s3

    where = source.find(f"{place.rstrip('/')}/{name}" if is_s3(place) else str(folder_of(name, stores.root(place))))
    look = where.look()
    if to is not None and to not in look.places:
        known = ", ".join(map(str, sorted(look.places))) or "none"
        raise Failure(f"{where.title} has no version {to}; it has: {known}", "faas snapshot create --version makes one")
    after = plan.labelled(plan.read(look.file), label, to)
    where.write(plan.write(after))
    return {"name": name, "labels": after.labels, "versions": sorted(look.places), "source": where.title}


def _rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    instances = list(found["instances"].values())
    return [_row(number, found["labels"], instances) for number in found["versions"]]


def _row(version: int, labels: Mapping[str, int], instances: list[dict[str, Any]]) -> dict[str, Any]:
    held = [row for instance in instances for row in instance.get("versions", ()) if row["version"] == version]
    return {
        "version": version,
        "labels": [label for label, led in sorted(labels.items()) if led == version],
        "default": sum(instance.get("default") == version for instance in instances),
        "of": len(instances),
        "ready": sum(row["state"] == "AVAILABLE" for row in held),
        "state": ", ".join(sorted({row["step"] for row in held})) or "not held",
        "reason": next((row["reason"] for row in held if row["reason"]), None),
    }
