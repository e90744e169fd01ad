"""The process in which an environment is made: `python -m faas.building`. `faas.environments` starts it.

The environment is made where it will be used, since what is installed knows its place. A mark, written last, says that
it is whole; what bears none is made anew by whoever holds its lock next.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from faas import installer, modules, tasks
from faas.environments import Built, Environment, Recipe, Task, core
from faas.errors import NotPrepared
from faas.tasks import Step


def main() -> int:
    """Do the task on standard input. Returns the exit status."""
    return tasks.serve(Task, _build)


def _build(task: Task, report: tasks.Report) -> Built:
    environment = Environment(Path(task.root), task.recipe.digest)

    def step(text: str) -> None:
        report(Step(text))

    try:
        with locked(environment, step):
            if not environment.is_made:
                _make(environment, task.recipe, step)
    except OSError as error:
        what = f"cannot make {environment.folder}: {error.strerror or error}"
        raise NotPrepared(f"{what}; make room there or choose another FAAS_HOME") from None
    return Built()


@contextmanager
def locked(environment: Environment, step: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of an environment, waiting for it if need be."""
    environment.root.mkdir(parents=True, exist_ok=True)
    with environment.lock.open("a") as lock:
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                raise
            step("waiting for another process that makes the same environment")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(environment: Environment, recipe: Recipe, step: Callable[[str], None]) -> None:
    step(f"making an environment with {', '.join(recipe.requirements)}")
    shutil.rmtree(environment.folder, ignore_errors=True)  # what a builder that was killed has left
    venv.EnvBuilder(symlinks=True, with_pip=not installer.has_pip()).create(environment.folder)
    site = environment.site_packages
    ours = metadata.distribution("faas")
    for distribution in core().values():
        _link(distribution, site)
    _link_ours(ours, site)
    installer.install(environment.python, [f"faas=={ours.version}", *recipe.requirements], environment.log, step)
    environment.mark(recipe)


def _link(distribution: metadata.Distribution, site: Path) -> None:
    """Have the files of an installed distribution in another environment, on the same pages of memory.

    pip replaces files, it writes into none: those here stay as they are, whatever it does there.
    """
    for file in distribution.files or ():
        source, target = Path(str(distribution.locate_file(file))), site / file
        if ".." in file.parts or target.exists() or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
            shutil.copy2(source, target)


def _link_ours(ours: metadata.Distribution, site: Path) -> None:
    """Have this very framework there, and have pip see it, so that it takes what it depends on into account."""
    for name in (*modules.OURS, "handlers"):
        folder = modules.HOME / name
        if folder.is_dir():
            (site / name).symlink_to(folder)
    info = site / f"faas-{ours.version}.dist-info"
    info.mkdir()
    # Found in a checkout that is on the path, it is described by an egg-info, which calls the same document otherwise.
    (info / "METADATA").write_text(ours.read_text("METADATA") or ours.read_text("PKG-INFO") or "")
    (info / "INSTALLER").write_text("faas\n")
    (info / "RECORD").write_text("")


if __name__ == "__main__":
    sys.exit(main())
