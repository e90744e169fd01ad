"""The process in which a function is made ready: `python -m faas.preparing`. `faas.prepare` starts it.

It reads one `Task` and reports what becomes of it, as `faas.tasks` has it. Each function gets a process of its own, so
that the modules it records are its own; the check of a snapshot gets a fresh one, so that nothing but the snapshot can
have helped.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import snapshot
from faas import examples, export, instance, later, library_threads, modules, needs, rehearsal, targets, tasks
from faas.description import Description
from faas.errors import SettingError, TargetError, named
from faas.function import Function
from faas.handler import Handler, Itself, Unkept
from faas.preparation import Origin, distribution_version, file_digest
from faas.preparing_messages import Checked, Exported, Made, Needs, Task
from faas.tasks import Found, Report, Step
from faas.users_errors import users_line
from snapshot import sharing

_RECORDED = instance  # an instance needs its modules too: they are part of what is recorded


def main() -> int:
    """Do the task on standard input. Returns the exit status."""
    return tasks.serve(Task, lambda task, report: _make(task, report) if task.verb == "make" else _check(task, report))


def _make(task: Task, report: Report) -> Made | Needs:
    report(Step(f"importing {task.target}"))
    needed = needs.of_bundle(task.target)
    if needed:
        return Needs(requirements=needed, function=task.function)
    try:
        functions = targets.load(task.target)
    except TargetError as error:
        return Needs(requirements=needs.of_file(task.target, error))
    function = _pick(functions, task.function)
    siblings = tuple(f.name for f in targets.load(targets.Target.of(task.target).place))
    report(Found(siblings, function.name))
    needed = needs.of_functions([function])
    if needed:
        return Needs(requirements=needed, function=function.name, siblings=siblings)
    report(Step(f"setting up {function.name}"))
    handler = Handler(function)
    begun = time.monotonic()
    state = _state(handler)
    setup_s = time.monotonic() - begun
    frozen = _freeze(function, state, task, report)  # before a call can change it
    digest = frozen.digest
    handler.after_thaw()
    form = task.export or function.spec.snapshot.export
    exported, export_reason, answers = None, None, None
    if form in export.FORMS:
        exported, export_reason, answers = _export(handler, state, task, report, form=form, digest=digest)
    if answers is None:
        answers = examples.answers(handler, may_fail=False)
    imports = tuple(modules.installed())
    origin = _origin(imports)
    target = targets.Target.of(task.target).named(_attribute(function))
    return Made(
        description=Description.of(function, target.text),
        origin=origin,
        siblings=siblings,
        imports=imports,
        answers=answers,
        digest=digest,
        reason=frozen.reason,
        may_pass=frozen.may_pass,
        state_bytes=frozen.num_bytes,
        setup_s=setup_s,
        globals=_globals(function, state),
        export=form if form in export.FORMS else None,
        exported=exported,
        export_reason=export_reason,
    )


def _export(
    handler: Handler, state: Any, task: Task, report: Report, *, form: str, digest: str | None
) -> tuple[Exported | None, str | None, list[str] | None]:
    """Run the examples and export what they call: what came of it, or why there is nothing; and the answers if any."""
    name = handler.function.name
    if digest is None or handler.function.spec.snapshot.mode == "weights":
        return None, "the state is not frozen", None
    answers = None
    try:
        report(Step(f"running the examples of {name}"))
        answers, seen = export.run_examples(handler)
        report(Step(f"exporting the modules of {name} to {form}"))
        exported = export.export(state, Path(task.folder), seen, form=form, folder=Path(task.exported))
    except snapshot.SnapshotError as error:
        return None, str(error), answers
    return exported, None, answers


def _state(handler: Handler) -> Any:
    """Set the handler up and return what is to be frozen: its state, or why it is not the whole of it, or its tensors.

    Raises:
        SettingError: its own code failed; says where.
    """
    try:
        if handler.function.spec.snapshot.mode != "weights":
            return handler.setup_to_keep()
        handler.setup()
        return sharing.of(handler.reachable())
    except Unkept as more:
        return more
    except Exception as error:
        traceback.print_exc()
        where = users_line(error)
        at = f" ({where})" if where else ""
        title = handler.function.__qualname__
        raise SettingError(f"{title}.setup() raised {named(error)}{at}") from None


def _globals(function: Function, state: Any) -> tuple[str, ...]:
    if function.spec.snapshot.mode != "state" or isinstance(state, Unkept):
        return ()
    return tuple(f"{module}.{name}" for module, values in state["globals"].items() for name in values)


class _Frozen(NamedTuple):
    """The snapshot's digest and its tensors' bytes, or why there is none, and whether there may be the next time."""

    digest: str | None = None
    num_bytes: int = 0
    reason: str | None = None
    may_pass: bool = False


def _freeze(function: Function, state: Any, task: Task, report: Report) -> _Frozen:
    if function.spec.snapshot.mode == "off":
        return _Frozen(reason='snapshot="off"')
    if isinstance(state, Unkept):
        return _Frozen(reason=str(state))
    what = "tensors" if function.spec.snapshot.mode == "weights" else "state"
    report(Step(f"freezing the {what} of {function.name}"))
    try:
        itself = {id(state["self"]): Itself()} if "self" in state and function.spec.snapshot.mode == "state" else {}
        manifest = snapshot.freeze(state, Path(task.folder), meta={"function": function.name}, replacing=itself)
    except snapshot.Unfreezable as error:
        return _Frozen(reason=f"{export.as_written(error.trail)}: {error.reason}")
    except snapshot.SnapshotError as error:
        return _Frozen(reason=str(error), may_pass=isinstance(error, snapshot.NoSpaceError))
    return _Frozen(manifest.digest, manifest.tensor_bytes)


def _check(task: Task, report: Report) -> Checked:
    report(Step(f"thawing {task.function} in a fresh process"))
    noticing = later.Noticing(task.later)
    with later.importing_later(task.later):
        function = _pick(targets.load(task.target), task.function)
    os.environ.update(function.spec.env)  # as in an instance: the state and `after_thaw()` may look there
    handler = Handler(function)
    begun = time.monotonic()
    _restore(handler, Path(task.folder))
    handler.after_thaw()
    thaw_s = time.monotonic() - begun
    library_threads.end()
    before = rehearsal.Footprint.here()
    answers = examples.answers(handler, may_fail=True)
    library_threads.end()  # as in a hot zygote
    return Checked(
        answers=answers,
        thaw_s=thaw_s,
        imports=tuple(modules.installed()),
        late=noticing.found,
        rehearsable=rehearsal.is_offered(function) and rehearsal.Footprint.here() == before,
    )


def _restore(handler: Handler, folder: Path) -> None:
    if handler.function.spec.snapshot.mode == "weights":
        handler.setup()
        sharing.share(handler.reachable(), snapshot.thaw(folder).state)
    else:
        handler.restore(snapshot.thaw(folder).state)


def _pick(functions: list[Function], name: str | None) -> Function:
    return functions[0] if name is None else next(f for f in functions if f.name == name)


def _attribute(function: Function) -> str:
    return str(function.__qualname__)


def _origin(imports: tuple[str, ...]) -> Origin:
    import importlib.metadata  # slow: reads every distribution's list of files
    import platform

    sources = {str(Path(str(m.__file__)).absolute()) for m in modules.of_user()}
    tops = {name.partition(".")[0] for name in imports}
    owners = importlib.metadata.packages_distributions()
    found = sorted({owner for top in tops for owner in owners.get(top, ())})
    return Origin(
        python=platform.python_version(),
        sources={path: file_digest(Path(path)) or "" for path in sorted(sources)},
        distributions={name: distribution_version(name) or "" for name in found},
    )


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # torch takes a third of a second to take itself down
