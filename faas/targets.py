"""Targets: what users write to name functions, and how the code they name is loaded.

A target is a file (`app.py`), a module (`pkg.app`), or either with the name of one function (`app.py:Embed`). A module
is looked for from the folder before it (`project/pkg.app`), which is the current one where none is written. A bundle's
folder, or the `bundle.json` in it, is a target too.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

import faas
from faas import modules, names
from faas.errors import TargetError
from faas.function import Function

OURS: Final = (*modules.OURS, "handlers")
"""The names of the top-level packages of this framework."""
BUNDLE_FILE: Final = "bundle.json"
"""What makes a folder a bundle (see `faas.bundle`)."""
_HOME: Final = Path(faas.__file__).parents[1]


class Target(msgspec.Struct, frozen=True):
    """Where functions are.

    `folder` is absolute and joins the module search path; `name` is one function's, None for all that are defined
    there.
    """

    folder: Path
    module: str
    name: str | None = None
    is_file: bool = False
    is_bundle: bool = False

    @classmethod
    def of(cls, text: str) -> Target:
        """Read a target as users write it.

        Raises:
            TargetError: it is no target, or its file does not exist.
        """
        place, colon, name = text.strip().rpartition(":")
        if not colon:
            place, name = name, ""
        if not place or (colon and not name):
            raise TargetError(f"{text!r} names nothing; write app.py, app.py:NAME, pkg.app or pkg.app:NAME")
        path = Path(place).expanduser().absolute()
        if place.endswith(".py"):
            _check_file(path, place)
            return cls(path.parent, path.stem, name or None, is_file=True)
        folder = path.parent if path.name == BUNDLE_FILE else path
        if (folder / BUNDLE_FILE).is_file():
            return cls(folder, BUNDLE_FILE, name or None, is_bundle=True)
        if path.is_dir() and not (path / "__init__.py").is_file():
            raise TargetError(f"{place} is a folder; name a Python file in it{_listed(path)}")
        if path.is_file() or not all(part.isidentifier() for part in path.name.split(".")):
            raise TargetError(f"{place!r} is neither a Python file nor a module; write app.py or pkg.app")
        return cls(path.parent, path.name, name or None)

    @property
    def place(self) -> str:
        """The target without the function's name."""
        return str(self.folder / self.module) + (".py" if self.is_file else "")

    @property
    def text(self) -> str:
        """The target as it can be written: it means the same in every process, whatever its current folder."""
        return self.place if self.name is None else f"{self.place}:{self.name}"

    @property
    def sources(self) -> tuple[Path, Path]:
        """The files that its module can lie in."""
        base = self.folder / self.module.replace(".", "/")
        return base.with_name(f"{base.name}.py"), base / "__init__.py"

    def moved(self, folder: Path) -> Target:
        """Return the target of the same module below another folder."""
        return msgspec.structs.replace(self, folder=folder)

    def named(self, name: str) -> Target:
        """Return the target of one function of this place."""
        return msgspec.structs.replace(self, name=name)

    def load(self) -> dict[str, Function]:
        """Import the module, unless it is loaded, and return its functions by the names they have in it.

        Only functions that the module itself defines are among them, and only the named one where there is a name.

        Raises:
            TargetError: the module cannot be imported, or has no such function.
            BundleError: it is a bundle, and cannot be loaded.
        """
        if self.is_bundle:
            return _bundled(self)
        module = _module(self)
        found = _defined(module)
        _refuse_equal_names({self.named(key): function for key, function in found.items()})
        if self.name is not None:
            key = _named(self.name, found, module)
            return {key: found[key]}
        if not found:
            raise TargetError(
                f"{shown(self.place)} defines no function{_imported(module)}; decorate one: @inference_function"
            )
        return found


def load(target: str) -> list[Function]:
    """Return the functions that a target names, in the order of their definition.

    Raises:
        TargetError: see `Target.of` and `Target.load`.
    """
    return list(Target.of(target).load().values())


def _bundled(target: Target) -> dict[str, Function]:
    from faas import bundle  # nothing to whoever runs plain files

    function = bundle.load(target.folder)
    key = str(function.__qualname__)
    if target.name not in (None, function.name, key):
        raise TargetError(f"{shown(target.folder)} is the bundle of {key}, not of {target.name!r}")
    return {key: function}


def _check_file(path: Path, written: str) -> None:
    if path.is_file():
        if "." in path.stem:
            raise TargetError(f"{written}: the file's name becomes a module's, which has no dots; rename the file")
        return
    beside = [p.name for p in path.parent.glob("*.py")]
    near = names.suggestion(path.name, beside) or _listed(path.parent)
    raise TargetError(f"{written}: there is no such file{near}")


def _listed(folder: Path) -> str:
    found = sorted(p.name for p in folder.glob("*.py"))
    return f"; there is: {', '.join(found[:5])}" if found else ""


def _module(target: Target) -> ModuleType:
    """Return the target's module, imported once."""
    if target.is_file and target.module in sys.stdlib_module_names:
        raise TargetError(f"{shown(target.place)}: {target.module!r} is a module of Python's own; rename the file")
    here = next((path for path in target.sources if path.is_file()), None)
    loaded = sys.modules.get(target.module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        if here is None or (file is not None and here.samefile(file)):
            return loaded
        raise TargetError(
            f"{shown(target.place)}: a module named {target.module!r} is loaded already, from "
            f"{file or 'the interpreter'}; rename one of the two"
        )
    _refuse_ours(target)
    added = str(target.folder) not in sys.path
    if added:
        sys.path.insert(0, str(target.folder))
    try:
        return _from_file(target.module, here) if target.is_file and here else importlib.import_module(target.module)
    except (Exception, SystemExit) as error:
        if added:
            sys.path.remove(str(target.folder))
        from faas.users_errors import not_importable  # the way of errors alone

        raise not_importable(target, error) from error


def _from_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _refuse_ours(target: Target) -> None:
    """Refuse a folder that would put a module of the user's in the place of one of ours."""
    if target.folder == _HOME:
        return
    for name in OURS:
        for path in (target.folder / f"{name}.py", target.folder / name / "__init__.py"):
            if path.is_file():
                raise TargetError(f"{shown(path)}: {name!r} is the name of a package of this framework; rename yours")


def shown(path: str | Path) -> str:
    """Return how a path is written in messages: from the current folder where it lies below it."""
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _defined(module: ModuleType) -> dict[str, Function]:
    """Return the functions that a module defines itself, each once, by the first name it has there."""
    found: dict[int, tuple[str, Function]] = {}
    for key, value in vars(module).items():
        if isinstance(value, Function) and value.__module__ == module.__name__:
            found.setdefault(id(value), (key, value))
    return dict(found.values())


def _imported(module: ModuleType) -> str:
    for key, value in vars(module).items():
        if isinstance(value, Function):
            return f" (it imports {key}: serve that as {value.__module__}:{key})"
    return ""


def _refuse_equal_names(found: Mapping[Target, Function]) -> None:
    first: dict[str, Target] = {}
    for target, function in found.items():
        other = first.setdefault(function.name, target)
        if other != target:
            both = f"{shown(other.text)} and {shown(target.text)}"
            raise TargetError(f"{both} are both named {function.name!r}; give one another: name=...")


def _named(name: str, found: dict[str, Function], module: ModuleType) -> str:
    """Return the key in `found` of the function that a user calls `name`: as in the code, or as it is served."""
    if name in found:
        return name
    for key, function in found.items():
        if function.name == name:
            return key
    other = getattr(module, name, None)
    if isinstance(other, Function):
        raise TargetError(
            f"{module.__name__} imports {name}, it does not define it; serve it as {other.__module__}:{name}"
        )
    if other is not None:
        raise TargetError(f"{module.__name__}.{name} is no function of ours; decorate it: @inference_function")
    known = [*found, *(f.name for f in found.values() if f.name not in found)]
    near = names.suggestion(name, known)
    listed = f"; it defines: {', '.join(found)}" if found else "; it defines none: decorate one: @inference_function"
    raise TargetError(f"{module.__name__} has no function {name!r}{near}{listed}")
