"""Make functions ready, each in a process of its own: import, set up, freeze, thaw afresh, compare, record."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from faas import environments, settings, tasks, versions
from faas.errors import NotPrepared, TargetError
from faas.preparation import Preparation, Preparations
from faas.targets import Target
from faas.tasks import Progress, Waiting

KEPT_SNAPSHOTS = 3

Tolerance = tuple[float, float]
TOLERANCE: Tolerance = (1e-4, 1e-6)
EXPORTED_TOLERANCE: Tolerance = (1e-3, 1e-4)
"""Relative and absolute: an exported model runs other kernels, which add in another order."""


@dataclass(frozen=True)
class Prepared:
    """What came of a target: its functions that are ready, and by name why others are not."""

    ready: list[Preparation]
    failed: dict[str, NotPrepared]


async def prepare(
    target: str, store: Path, *, progress: Progress, force: bool = False, export: str | None = None
) -> list[Preparation]:
    """Return the preparations of all functions that `target` names, made where one is missing or stale.

    `export` is the form that modules are to be had in ("onnx", "aoti", "none"); None is the one that was asked for when
    a function was made ready before, or that the function itself asks for.

    Raises:
        NotPrepared: the target cannot be loaded, or a function's `setup()` failed; the message holds why.
        TargetError: there is no such target, or the store cannot be written.
    """
    made = await prepare_each(target, store, progress=progress, force=force, export=export)
    for failure in made.failed.values():
        raise failure
    return made.ready


async def prepare_each(
    target: str, store: Path, *, progress: Progress, force: bool = False, export: str | None = None
) -> Prepared:
    """Do what `prepare` does, but have a function that cannot be made ready keep no other from it.

    Raises:
        NotPrepared: the target cannot be loaded; the message holds why.
        TargetError: there is no such target, or the store cannot be written.
    """
    meant = Target.of(target)
    preparations = Preparations(store)
    asked = export or preparations.asked(meant.text)
    ready = {} if force else preparations.fresh(meant.text, export)
    failed: dict[str, NotPrepared] = {}
    waiting: list[str | None] = [*_others(meant, ready)] if ready else [None]
    while waiting:
        name = waiting.pop(0)
        try:
            made = await _make(meant.text, name, store, asked, progress)
        except NotPrepared as error:
            if error.function is None:
                raise
            failed[error.function], siblings = error, error.siblings
        else:
            preparations.write(made)
            ready[made.name], siblings = made, made.siblings
        if name is None and meant.name is None:
            waiting = [other for other in siblings if other not in ready and other not in failed]
    return Prepared([versions.with_place(ready[name], store) for name in sorted(ready)], failed)


def _others(target: Target, ready: dict[str, Preparation]) -> list[str]:
    """Return the names of the target's functions that are to be made ready beside those that are."""
    siblings = {sibling for preparation in ready.values() for sibling in preparation.siblings}
    return [] if target.name is not None else sorted(siblings - set(ready))


async def _make(target: str, name: str | None, store: Path, asked: str | None, progress: Progress) -> Preparation:
    _writable(store)
    from snapshot.staging import scratch_folder  # local: what is fresh needs none of it

    # The second process has done its imports by the time that the first has frozen something for it to check.
    with scratch_folder(store) as scratch:
        async with tasks.ahead("faas.preparing") as checker:
            task = {"target": target, "function": name, "export": asked, "folder": str(scratch / "snapshot")}
            wanted = {**task, "verb": "make", "exported": str(scratch / "exported")}
            made, python = await _in_environment(wanted, progress)
            task["python"] = python or sys.executable
            outcome: dict[str, Any] = {"snapshot": None, "digest": None, "reason": made["reason"]}
            if made["exported"] is not None:
                outcome = await _checked_export(made, {**task, "folder": str(scratch / "exported")}, checker, progress)
            if made["digest"] is not None and outcome["snapshot"] is None:
                outcome = {**outcome, **await _checked(made, task, checker, progress)}
        if outcome["snapshot"] is not None:
            outcome |= _published(made["description"]["name"], Path(outcome["snapshot"]), store)
    copied = ("description", "origin", "siblings", "imports", "state_bytes", "setup_s", "export_reason", "globals")
    known = {key: made[key] for key in copied} | {"asked": asked, "interpreter": python}
    preparation = msgspec.convert(known | outcome, Preparation)  # the check may know better what is imported
    progress(f"{preparation.name} is ready; {_frozen(preparation)}")
    return preparation


async def _in_environment(task: dict[str, Any], progress: Progress) -> tuple[dict[str, Any], str | None]:
    """Run a task here, or in an environment with what its function turns out to need, and tell in which: None is here.

    What it needs is known once its file is loaded. A file that cannot be, for it imports what is not here, may still
    show what its functions require.
    """
    python, tried = None, []
    while True:
        done = await _run({**task, "python": python or sys.executable}, progress)
        if done["type"] != "needs":
            return done, python
        needed, found = done["requirements"], (done["function"], tuple(done["siblings"]))
        if needed in tried:
            raise NotPrepared(f"an environment with {', '.join(needed)} still lacks some of it", *found)
        tried.append(needed)
        try:
            python = await environments.have(settings.read().environments, needed, progress)
        except NotPrepared as error:
            raise NotPrepared(str(error), *found) from None


async def _run(task: dict[str, Any], progress: Progress, *, ahead: Waiting | None = None) -> dict[str, Any]:
    """Run one task in a process of the interpreter that it names, the one `ahead` where that will do, and return its
    last report.
    """
    what = f"{task['target']} ready"
    if ahead is not None and ahead.is_waiting and task["python"] == sys.executable:
        return await ahead.run(task, progress, what=what)
    return await tasks.run("faas.preparing", task, progress, what=what, python=task["python"])


def _frozen(preparation: Preparation) -> str:
    if preparation.snapshot is None:
        return f"instances run setup(): {preparation.reason}"
    frozen = "its state is frozen" + (f", exported to {preparation.export}" if preparation.export else "")
    for package, line in preparation.late.items():
        frozen += f"; it imports {package} all the same{f', at {line}' if line else ''}"
    if preparation.export_reason is not None:
        frozen += f"; it is not exported: {preparation.export_reason}"
    return frozen


def _writable(store: Path) -> None:
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(f"cannot make {store}: {error.strerror}; choose another --store or FAAS_HOME") from None


def _published(name: str, folder: Path, store: Path) -> dict[str, Any]:
    """Keep a snapshot in the store; of older ones, the last few stay, within the budget.

    Returns what a preparation says of it: its folder there, and the libraries that it refers to.
    """
    import snapshot  # only where one was made
    from faas import budget

    local = snapshot.LocalStore(store)
    kept = local.publish(name, folder)
    local.prune(name, keep=KEPT_SNAPSHOTS)
    budget.hold(local)
    return {"snapshot": str(local.folder(kept)), "libraries": snapshot.read_manifest(folder).libraries}


async def _checked_export(
    made: dict[str, Any], task: dict[str, Any], checker: Waiting, progress: Progress
) -> dict[str, Any]:
    """Check the exported state; where it is not as good, say why, so that the state as it was is used."""
    exported = made["exported"]
    made = {**made, "digest": exported["digest"]}
    task = {**task, "later": exported["later"]}
    outcome = await _checked(made, task, checker, progress, tolerance=EXPORTED_TOLERANCE)
    if outcome["snapshot"] is None:
        return {"snapshot": None, "export_reason": outcome["reason"]}
    return {**outcome, "export": made["export"], "later": exported["later"], "state_bytes": exported["state_bytes"]}


async def _checked(
    made: dict[str, Any],
    task: dict[str, Any],
    checker: Waiting,
    progress: Progress,
    *,
    tolerance: Tolerance = TOLERANCE,
) -> dict[str, Any]:
    """Thaw in a fresh process and compare the answers; a snapshot that is not as good as `setup()` is not used."""
    name = made["description"]["name"]
    progress(f"thawing {name} in a fresh process")
    unused = {"snapshot": None, "digest": None}
    try:
        checked = await _run({**task, "verb": "check", "function": name}, progress, ahead=checker)
    except NotPrepared as error:
        return {**unused, "reason": f"the state does not thaw: {error}"}
    if made["answers"] is not None and not _same(made["answers"], checked["answers"], tolerance):
        return {**unused, "reason": "the thawed state answers the examples differently"}
    kept = {"snapshot": task["folder"], "digest": made["digest"], "compared": made["answers"] is not None}
    if task.get("later"):  # then the process that made it ready has imported what no instance needs
        kept |= {"imports": checked["imports"], "late": checked["late"]}
    return {**kept, "thaw_s": checked["thaw_s"], "rehearsable": checked["rehearsable"]}


def _same(before: list[str], after: list[str], tolerance: Tolerance) -> bool:
    return len(before) == len(after) and all(
        close(msgspec.json.decode(a), msgspec.json.decode(b), tolerance) for a, b in zip(before, after, strict=True)
    )


def close(a: Any, b: Any, tolerance: Tolerance = TOLERANCE) -> bool:
    """Tell whether two JSON values are equal, numbers to within a tolerance, relative or absolute."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=tolerance[0], abs_tol=tolerance[1])
    return bool(a == b)
