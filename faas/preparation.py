"""A function made ready: what it is, what it was made from, what a zygote imports for it, its snapshot.

A preparation is made in a process of its own (`faas.prepare`), so that a platform never imports user code. It holds
digests of everything that it was made from: whether it is still fresh is told from files alone.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from blake3 import blake3

from faas.description import Description
from faas.errors import SettingError, TargetError
from faas.names import is_label

if TYPE_CHECKING:
    from faas.environments import Environment

FORMAT = 1


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a preparation was made from: Python, the user's source files, the installed distributions, by digest."""

    python: str
    sources: dict[str, str]
    distributions: dict[str, str]

    def changed(self, place: Path | None = None) -> str | None:
        """Return what is no longer as it was, in words, or None where nothing changed.

        `place` is the folder that the distributions are installed in; None: where this framework is.
        """
        for path, digest in self.sources.items():
            if file_digest(Path(path)) != digest:
                return f"{path} has changed"
        return self.changed_around(place)

    def is_there(self) -> bool:
        """Tell whether all sources are still as they were."""
        return all(file_digest(Path(path)) == digest for path, digest in self.sources.items())

    def changed_around(self, place: Path | None = None) -> str | None:
        """Return what but for the sources is no longer as it was."""
        if self.python != platform.python_version():
            return f"Python was {self.python} and is {platform.python_version()}"
        for name, version in self.distributions.items():
            now = distribution_version(name, place)
            if now != version:
                return f"{name} was {version} and is {now or 'gone'}"
        return None


class Preparation(msgspec.Struct, frozen=True, kw_only=True, dict=True):  # for cached_property
    """A function made ready.

    `imports` are the installed modules that `setup()` and a first call had loaded; `siblings` the names of all the
    target's functions. `snapshot` is the folder of the frozen state and `digest` its identity; where they are None,
    `reason` says why, and instances run `setup()`; where that `may_pass` (a full disk), it is made ready again the next
    time. `compared` tells whether the thawed state gave equal answers to the example inputs, `rehearsable` whether a
    zygote may answer them for its instances. Durations in seconds.

    `export` is the form that its modules are frozen in, None for torch's own, or `export_reason` says why they are not;
    `asked` is what was asked for when it was made, for the next time. `later` are the packages that it does without,
    and `late` those of them that are imported after all, with the lines that do it. `code` is the target within a copy
    of the user's sources that a platform keeps; None: they are where they were. `interpreter` is that of the
    environment with its requirements; None: the one that this framework is installed for meets them. `globals` are
    those that `setup()` bound, which no two versions of the state can have for themselves. `versions` is where numbered
    versions are, which are then served in place of the snapshot; None: there are none. `libraries` are the installed
    distributions that the frozen state refers to, with their versions.
    """

    format: int = FORMAT
    description: Description
    origin: Origin
    siblings: tuple[str, ...]
    imports: tuple[str, ...]
    snapshot: str | None = None
    digest: str | None = None
    reason: str | None = None
    may_pass: bool = False
    compared: bool = False
    rehearsable: bool = False
    state_bytes: int = 0
    setup_s: float = 0.0
    thaw_s: float = 0.0
    export: str | None = None
    export_reason: str | None = None
    asked: str | None = None
    later: tuple[str, ...] = ()
    late: dict[str, str] = {}
    code: str | None = None
    interpreter: str | None = None
    globals: tuple[str, ...] = ()
    versions: str | None = None
    libraries: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The function's name."""
        return self.description.name

    @property
    def python_name(self) -> str:
        """The name that the function has in its module."""
        return self.description.target.rpartition(":")[2]

    @property
    def runs(self) -> str:
        """The target that instances load."""
        return self.code or self.description.target

    @cached_property
    def revision(self) -> str:
        """A short name for this state of code, settings and snapshot; versions come and go within it."""
        state = self.versions or self.digest
        return blake3(msgspec.json.encode([self.origin, self.description, state])).hexdigest()[:8]

    def importing(self, late: tuple[str, ...]) -> Preparation:
        """Return the same with more modules for the zygote to import."""
        return msgspec.structs.replace(self, imports=(*self.imports, *late))

    def stale(self) -> str | None:
        """Return why this can no longer be used, or None while it can."""
        return self._unmade() or self.origin.changed(self._place) or self._damage() or self._to_try_again()

    def unfit(self) -> str | None:
        """Return why this can no longer be used with a copy of the sources, or None while it can."""
        return self._unmade() or self.origin.changed_around(self._place) or self._damage()

    @property
    def _place(self) -> Path | None:
        """Where its packages are installed, None where they are so beside this framework."""
        return None if self.interpreter is None else _environment(self.interpreter).site_packages

    def _unmade(self) -> str | None:
        if self.interpreter is None or _environment(self.interpreter).is_made:
            return None
        return f"the environment of {self.interpreter} is gone"

    def _to_try_again(self) -> str | None:
        return f"it has no snapshot yet: {self.reason}" if self.may_pass else None

    def _damage(self) -> str | None:
        if self.snapshot is None or self.snapshot.startswith("s3://"):
            return None
        return _unusable(Path(self.snapshot))


def _environment(python: str) -> Environment:
    from faas.environments import Environment  # slow to import, and nothing to a function without one

    return Environment.of_python(python)


def _unusable(folder: Path) -> str | None:
    import snapshot  # local: what only reads preparations needs none of it

    try:
        version = snapshot.read_format_version(folder)
    except snapshot.SnapshotNotFoundError:
        return f"the snapshot {folder} is gone"
    except snapshot.BadManifestError as error:
        return f"the snapshot is damaged: {error}"
    return None if version == snapshot.FORMAT_VERSION else f"the snapshot {folder} is of format version {version}"


def file_digest(path: Path) -> str | None:
    """Return the BLAKE3 digest of a file, or None where it cannot be read."""
    try:
        return blake3(path.read_bytes()).hexdigest()
    except OSError:
        return None


def distribution_version(name: str, place: Path | None = None) -> str | None:
    """Return the version of a distribution that is installed here, or in the folder `place`; or None."""
    import importlib.metadata  # 20 ms that no instance should pay

    path = sys.path if place is None else [str(place)]
    found = importlib.metadata.distributions(name=name, path=path)
    return next((distribution.version for distribution in found), None)


class Preparations:
    """The preparations in a store's folder: one JSON file a function, replaced atomically."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> Preparation | None:
        """Return the preparation of a function, or None where there is none that this version can read."""
        if not is_label(name):
            raise SettingError(f"{name!r} is no function's name")
        return self._load(self._path(name))

    def all(self) -> list[Preparation]:
        """Return every preparation, by name."""
        found = (self._load(path) for path in sorted(self._root.glob("*.json")))
        return [p for p in found if p is not None]

    def write(self, preparation: Preparation) -> None:
        """Keep a preparation in place of the function's earlier one.

        Raises:
            TargetError: the folder cannot be written.
        """
        path = self._path(preparation.name)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(preparation)))
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise TargetError(f"cannot write {path}: {error.strerror}; choose another --store or FAAS_HOME") from None

    def fresh(self, target: str, export: str | None = None) -> dict[str, Preparation]:
        """Return by name, of all functions that `target` names, those whose preparations can be used as they are.

        With `export`, one that was made without this form being asked for cannot.
        """
        place, _, name = target.partition(":")
        found = [p for p in self.all() if p.description.target == target or not name]
        found = [p for p in found if p.description.target.partition(":")[0] == place and not p.stale()]
        return {p.name: p for p in found if export is None or p.asked == export}

    def asked(self, target: str) -> str | None:
        """Return the form that was asked for when the target's functions were made ready before, stale or not."""
        place, _, name = target.partition(":")
        of_place = [p for p in self.all() if p.description.target.partition(":")[0] == place]
        return next((p.asked for p in of_place if p.asked and (not name or p.description.target == target)), None)

    def _path(self, name: str) -> Path:
        return self._root / f"{name}.json"

    @staticmethod
    def _load(path: Path) -> Preparation | None:
        try:
            made = msgspec.json.decode(path.read_bytes(), type=Preparation)
        except (OSError, msgspec.MsgspecError):
            return None
        return made if made.format == FORMAT else None
