"""Virtual environments for functions that need what this interpreter lacks: one for each set of requirements.

    ROOT/DIGEST/             the environment: this same faas, what it depends on, and the requirements
    ROOT/DIGEST/faas.json    what it was made of; written last, so that what has it is whole
    ROOT/DIGEST.lock         held while it is made or removed
    ROOT/DIGEST.log          what pip said

DIGEST is that of the requirements, of Python, and of faas with all that it depends on here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Self

import msgspec
from blake3 import blake3
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from faas import modules, requirements, tasks
from faas.errors import NotPrepared
from faas.tasks import Progress

_MARK = "faas.json"
_DIGEST_LENGTH = 16


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment is made of: `home` is where our packages lie, `core` what they depend on, with versions."""

    requirements: tuple[str, ...]
    python: str
    base: str
    home: str
    core: dict[str, str]

    @classmethod
    def of(cls, needed: Iterable[str]) -> Self:
        """Return what is to be made for these requirements.

        Raises:
            SettingError: one is no requirement as pip takes them.
            NotPrepared: this framework is not installed, so nobody knows what it depends on.
        """
        return cls(
            requirements=tuple(sorted({requirements.normalized(text) for text in needed})),
            python=platform.python_version(),
            base=sys.base_prefix,
            home=str(modules.HOME.resolve()),
            core={name: distribution.version for name, distribution in sorted(core().items())},
        )

    @property
    def digest(self) -> str:
        """The environment's name."""
        return blake3(msgspec.json.encode(self)).hexdigest()[:_DIGEST_LENGTH]


class Task(tasks.Task, frozen=True, kw_only=True):
    """For `faas.building`: the environment to make, in `root`."""

    root: str
    recipe: Recipe


class Built(msgspec.Struct, frozen=True, tag="built"):
    """Its outcome: the environment is there, made now or meanwhile by another process."""


_OUTCOMES: Final[msgspec.json.Decoder[tasks.Message | Built]] = msgspec.json.Decoder(tasks.Message | Built)


@dataclass(frozen=True)
class Environment:
    """The places of one environment, whether it is there or not."""

    root: Path
    digest: str

    @classmethod
    def of_python(cls, python: str) -> Self:
        """Return the environment that an interpreter is of."""
        folder = Path(python).parents[1]
        return cls(folder.parent, folder.name)

    @property
    def folder(self) -> Path:
        """Where all of it lies."""
        return self.root / self.digest

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Where its packages lie."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    @property
    def lock(self) -> Path:
        """The file to lock while it is made or removed."""
        return self.root / f"{self.digest}.lock"

    @property
    def log(self) -> Path:
        """What pip said when it was made."""
        return self.root / f"{self.digest}.log"

    @property
    def is_made(self) -> bool:
        """Whether it is whole."""
        return (self.folder / _MARK).is_file()

    def recipe(self) -> Recipe | None:
        """Return what it was made of, None where it is not whole."""
        try:
            return msgspec.json.decode((self.folder / _MARK).read_bytes(), type=Recipe)
        except (OSError, msgspec.MsgspecError):
            return None

    def mark(self, recipe: Recipe) -> None:
        """Say that it is whole."""
        temporary = self.folder / f"{_MARK}.tmp"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(recipe)))
        temporary.replace(self.folder / _MARK)

    def remove(self) -> bool:
        """Remove it, unless somebody makes it right now. Returns whether it is gone."""
        with self.lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            (self.folder / _MARK).unlink(missing_ok=True)
            shutil.rmtree(self.folder)
            self.log.unlink(missing_ok=True)
        return True


async def have(root: Path, needed: Iterable[str], progress: Progress) -> str:
    """Return the interpreter of the environment in `root` that holds what is `needed`, made now where there is none.

    Raises:
        SettingError: a requirement is none as pip takes them.
        NotPrepared: it cannot be made; says why.
    """
    recipe = Recipe.of(needed)
    environment = Environment(root, recipe.digest)
    if not environment.is_made:
        task = Task(root=str(root), recipe=recipe)
        await tasks.run("faas.building", task, _OUTCOMES, progress, what=f"the environment {environment.folder}")
    return str(environment.python)


def all_in(root: Path) -> list[Environment]:
    """Return the environments in `root`, also those that are not whole."""
    return [Environment(root, path.name) for path in sorted(root.glob("*")) if path.is_dir()]


def current() -> Environment | None:
    """Return the environment that this process runs in, None where it is the interpreter that faas is installed for."""
    found = Environment.of_python(sys.executable)
    return found if found.is_made else None


def is_used(environment: Environment, records: Iterable[Path]) -> bool:
    """Tell whether a process runs in an environment, or one of the files `records` names it."""
    folder = os.fsencode(f"{environment.folder}/")
    for path in (*records, *Path("/proc").glob("[0-9]*/cmdline")):
        with contextlib.suppress(OSError):
            if folder in path.read_bytes():
                return True
    return False


def core() -> Mapping[str, metadata.Distribution]:
    """Return what this framework depends on without its extras, installed here, by name.

    Raises:
        NotPrepared: this framework is not installed.
    """
    try:
        ours = metadata.distribution("faas")
    except metadata.PackageNotFoundError:
        raise NotPrepared("faas is not installed, and so cannot be put into an environment: pip install it") from None
    found: dict[str, metadata.Distribution] = {}
    waiting = [ours]
    while waiting:
        for text in waiting.pop().requires or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name in found or not requirements.holds(requirement):
                continue
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.distribution(name)
                waiting.append(found[name])
    return found
