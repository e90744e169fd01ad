"""What clean interpreters are asked: does a bundle load without the user's files, what are globals as first imported.

`python -P -m faas.bundle.verifying` is such an interpreter: it reads a task on standard input and writes an answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Self

import msgspec

from faas import modules
from faas.bundle.summaries import kind_of, summary

LIMIT_S = 600.0
"""How long the user's modules may take to be imported."""


class Task(msgspec.Struct, frozen=True):
    """Load the bundle in `folder`; or, with `names`, import these modules along `search` and say what they hold."""

    folder: str = ""
    names: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """Why a bundle does not load; `missing` is the module that it lacks, where it is that."""

    message: str
    missing: str | None = None

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if "FileNotFoundError" in self.message:
            return "take the file along (include=), and open it by Path(__file__).parent: the current folder is another"
        return "import it as a plain module, or correct what the bundle is made of"


class Answer(msgspec.Struct, frozen=True):
    """What came of a task: nothing failed, or this did; of each module the globals, by `kind_of` and `summary`."""

    failure: Failure | None = None
    globals: dict[str, dict[str, tuple[str, str]]] = {}


class CleanInterpreter:
    """A clean interpreter that waits for its one task. A context: with it the interpreter ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "faas.bundle.verifying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=_environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, task: Task) -> Answer:
        """Give it its task."""
        try:
            answer, said = self._process.communicate(msgspec.json.encode(task), LIMIT_S)
        except subprocess.TimeoutExpired:
            return Answer(Failure(f"importing it took longer than {LIMIT_S:g} s"))
        if not answer:
            last = said.decode(errors="replace").strip().splitlines()[-1:]
            return Answer(Failure(f"its process ended with status {self._process.returncode}: {' '.join(last)}"))
        return msgspec.json.decode(answer, type=Answer)

    def load(self, folder: Path) -> Failure | None:
        """Load a bundle there, from another folder, with nothing of the user's on its path."""
        return self.ask(Task(folder=str(folder))).failure


def globals_of(module: types.ModuleType) -> dict[str, Any]:
    """Return the globals of a module that are its own: not those that each module has, nor other modules."""
    return {
        name: value
        for name, value in list(vars(module).items())
        if not name.startswith("__") and not isinstance(value, types.ModuleType)
    }


def _environment() -> dict[str, str]:
    """Return the environment of a clean interpreter: what is installed is found there, the user's folders are not."""
    found = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSTARTUP")}
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [place for place in named if place == str(modules.HOME) or place in modules.installed_aside()]
    return {**found, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {}), "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> None:
    """Do the task on standard input. Standard output is for the answer: what user code prints goes to the other."""
    encoded = sys.stdin.buffer.read()
    if not encoded:  # whoever started it has nothing to ask
        os._exit(0)
    task = msgspec.json.decode(encoded, type=Task)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        answer = _import(task) if task.names else _load(Path(task.folder))
    except BaseException as error:  # whatever code of the user's does at import
        answer = Answer(Failure(f"{type(error).__name__}: {error}", _missing(error)))
    with out:
        out.write(msgspec.json.encode(answer))
    os._exit(0)  # threads of the user's do not keep it


def _load(folder: Path) -> Answer:
    from faas.bundle.loading import load  # not before: what it imports is to come from the bundle

    load(folder)
    strangers = [m for m in modules.of_user() if not _is_expected(str(m.__file__), folder)]
    if strangers:
        first = strangers[0]
        return Answer(Failure(f"it imports {first.__name__} from {first.__file__}", first.__name__))
    return Answer()


def _is_expected(file: str, folder: Path) -> bool:
    return Path(file).is_relative_to(folder) or Path(file).is_relative_to(modules.HOME / "handlers")


def _missing(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            return error.name
        error = error.__cause__
    return None


def _import(task: Task) -> Answer:
    import importlib

    sys.path[:] = task.search
    found = {}
    for name in task.names:
        module = importlib.import_module(name)
        found[name] = {key: (kind_of(value), summary(value)) for key, value in globals_of(module).items()}
    return Answer(globals=found)


if __name__ == "__main__":
    main()
