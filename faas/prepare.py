"""Make functions ready, each in a process of its own: import, set up, freeze, thaw afresh, compare, record."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from faas import environments, settings, tasks, versions
from faas.errors import NotPrepared, TargetError
from faas.preparation import Preparation, Preparations
from faas.preparing_messages import CHECKING, MAKING, Checked, Made, Needs, Task
from faas.targets import Target
from faas.tasks import Progress, Waiting

KEPT_SNAPSHOTS = 3
_MODULE = "faas.preparing"

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
    maker = _Maker(meant.text, store, asked, progress)
    failed: dict[str, NotPrepared] = {}
    waiting: list[str | None] = [*_others(meant, ready)] if ready else [None]
    while waiting:
        name = waiting.pop(0)
        try:
            made = await maker.make(name)
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


@dataclass(frozen=True)
class _Candidate:
    """A snapshot that may take the place of `setup()` if its answers are as close as `tolerance`.

    It was made to do without the packages `later`.
    """

    folder: Path
    digest: str
    tolerance: Tolerance = TOLERANCE
    later: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Maker:
    """Makes functions of one target ready, one at a time; `asked` is the form that was asked for."""

    target: str
    store: Path
    asked: str | None
    progress: Progress

    async def make(self, name: str | None) -> Preparation:
        """Make the function of that name ready, the first of the target where it is None."""
        _writable(self.store)
        from snapshot.staging import scratch_folder  # local: what is fresh needs none of it

        # The second process has done its imports by the time that the first has frozen something for it to check.
        with scratch_folder(self.store) as scratch:
            frozen, exported = scratch / "snapshot", scratch / "exported"
            async with tasks.ahead(_MODULE) as checker:
                made, python = await self._made(name, str(frozen), str(exported))
                found = _unfrozen(made, self.asked, python)
                if made.exported is not None:
                    found = await self._with_export(found, made, exported, checker)
                if made.digest is not None and found.snapshot is None:
                    found = await self._checked(found, made, _Candidate(frozen, made.digest), checker)
            if found.snapshot is not None:
                found = _published(found, Path(found.snapshot), self.store)
        self.progress(f"{found.name} is ready; {_frozen(found)}")
        return found

    async def _made(self, name: str | None, folder: str, exported: str) -> tuple[Made, str | None]:
        """Make it ready here, or where all that it needs is installed; return that interpreter, None for this one.

        What it needs is known once its file is loaded. A file that cannot be, for it imports what is not here, may
        still show what its functions require.
        """
        task = Task(verb="make", target=self.target, function=name, export=self.asked, folder=folder, exported=exported)
        python: str | None = None
        tried: list[tuple[str, ...]] = []
        while True:
            done: Made | Needs = await tasks.run(
                _MODULE, task, MAKING, self.progress, what=self._what, python=python or sys.executable
            )
            if isinstance(done, Made):
                return done, python
            needed, of = done.requirements, (done.function, done.siblings)
            if needed in tried:
                raise NotPrepared(f"an environment with {', '.join(needed)} still lacks some of it", *of)
            tried.append(needed)
            try:
                python = await environments.have(settings.read().environments, needed, self.progress)
            except NotPrepared as error:
                raise NotPrepared(str(error), *of) from None

    async def _with_export(self, found: Preparation, made: Made, folder: Path, checker: Waiting) -> Preparation:
        """Check the exported state; where it is not as good, say why, so that the state as it was is used."""
        exported = made.exported
        assert exported is not None
        candidate = _Candidate(folder, exported.digest, EXPORTED_TOLERANCE, exported.later)
        checked = await self._checked(found, made, candidate, checker)
        if checked.snapshot is None:
            return replace(found, export_reason=checked.reason)
        return replace(checked, export=made.export, later=exported.later, state_bytes=exported.state_bytes)

    async def _checked(self, found: Preparation, made: Made, candidate: _Candidate, checker: Waiting) -> Preparation:
        """Thaw in a fresh process and compare the answers; a snapshot that is not as good as `setup()` is not used."""
        folder = str(candidate.folder)
        task = Task(verb="check", target=self.target, function=found.name, folder=folder, later=candidate.later)
        try:
            checked = await self._check(task, found.interpreter or sys.executable, checker)
        except NotPrepared as error:
            return replace(found, reason=f"the state does not thaw: {error}")
        if made.answers is not None and not _same(made.answers, checked.answers, candidate.tolerance):
            return replace(found, reason="the thawed state answers the examples differently")
        if candidate.later:  # then the process that made it ready has imported what no instance needs
            found = replace(found, imports=checked.imports, late=checked.late)
        return replace(
            found,
            snapshot=folder,
            digest=candidate.digest,
            compared=made.answers is not None,
            thaw_s=checked.thaw_s,
            rehearsable=checked.rehearsable,
        )

    async def _check(self, task: Task, python: str, checker: Waiting) -> Checked:
        """Run a check in the process that waits for one, unless it is for another interpreter or was used before."""
        if checker.is_waiting and python == sys.executable:
            return await checker.run(task, CHECKING, self.progress, what=self._what)
        return await tasks.run(_MODULE, task, CHECKING, self.progress, what=self._what, python=python)

    @property
    def _what(self) -> str:
        return f"{self.target} ready"


def _unfrozen(made: Made, asked: str | None, python: str | None) -> Preparation:
    """Return what is known of a function before there is a snapshot that was checked."""
    return Preparation(
        description=made.description,
        origin=made.origin,
        siblings=made.siblings,
        imports=made.imports,
        reason=made.reason,
        may_pass=made.may_pass,
        state_bytes=made.state_bytes,
        setup_s=made.setup_s,
        export_reason=made.export_reason,
        asked=asked,
        interpreter=python,
        globals=made.globals,
    )


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


def _published(found: Preparation, folder: Path, store: Path) -> Preparation:
    """Keep a snapshot in the store; of older ones, the last few stay, within the budget."""
    import snapshot  # only where one was made
    from faas import budget

    local = snapshot.LocalStore(store)
    kept = local.publish(found.name, folder)
    local.prune(found.name, keep=KEPT_SNAPSHOTS)
    budget.hold(local)
    libraries = snapshot.read_manifest(folder).libraries
    return replace(found, snapshot=str(local.folder(kept)), libraries=libraries)


def _same(before: list[str], after: list[str] | None, tolerance: Tolerance) -> bool:
    return (
        after is not None
        and len(before) == len(after)
        and all(
            close(msgspec.json.decode(a), msgspec.json.decode(b), tolerance) for a, b in zip(before, after, strict=True)
        )
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
