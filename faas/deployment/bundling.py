"""A function that was made ready, packed in a process of its own: `python -m faas.deployment.bundling`.

So whoever deploys never imports user code, and a function with an environment of its own is packed in that.
"""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import msgspec

from faas import bundle, tasks, versions
from faas.bundle.prepared import known
from faas.preparation import Preparation
from faas.tasks import Report, Step


class Task(tasks.Task, frozen=True, kw_only=True):
    """Pack the function of `target` into `folder`, with what is known of it since it was made ready, and its state."""

    target: str
    folder: str
    preparation: Preparation | None = None
    with_snapshot: bool = False
    include: tuple[str, ...] = ()
    verify: bool = True


class Bundled(msgspec.Struct, frozen=True, kw_only=True, tag="bundled"):
    """The outcome. `revision` is what instances of it report as X-Model-Version; it does not depend on the machine."""

    revision: str


_MODULE: Final = "faas.deployment.bundling"
OUTCOMES: Final[msgspec.json.Decoder[tasks.Message | Bundled]] = msgspec.json.Decoder(tasks.Message | Bundled)


def ahead() -> AbstractAsyncContextManager[tasks.Waiting]:
    """Start a process of this interpreter that can be given to `run`, once, when there is something to pack."""
    return tasks.ahead(_MODULE)


async def run(
    task: Task, progress: tasks.Progress, *, python: str | None, ahead: tasks.Waiting | None = None
) -> Bundled:
    """Do a task in a process of the interpreter `python`, this one where it is None.

    Raises:
        NotPrepared: it cannot be packed; says what is in the way.
    """
    what = f"a bundle of {task.target}"
    if ahead is not None and ahead.is_waiting and python in (None, sys.executable):
        return await ahead.run(task, OUTCOMES, progress, what=what)
    return await tasks.run(_MODULE, task, OUTCOMES, progress, what=what, python=python or sys.executable)


def _do(task: Task, report: Report) -> Bundled:
    report(Step(f"packing {task.target}"))
    folder = Path(task.folder)
    made = bundle.make(
        task.target,
        folder,
        include=task.include,
        preparation=task.preparation,
        with_snapshot=task.with_snapshot,
        verify=task.verify,
        fresh=True,
    )
    found = known(folder, made)
    return Bundled(revision=made.digest[:8] if found is None else versions.in_bundle(found, folder).revision)


if __name__ == "__main__":
    sys.exit(tasks.serve(Task, _do))
