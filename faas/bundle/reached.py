"""The local modules that code reaches: those with files that lie in no installation, found without running anything."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from faas import modules
from faas.bundle import imports
from faas.bundle.errors import Unbundleable
from faas.function import Function

_EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)
_OURS = (*modules.OURS, "handlers")


@dataclass(frozen=True)
class Module:
    """A local module: where its file is, and where below `code/` it goes. `code` is None where it does not compile."""

    name: str
    file: Path
    path: str
    code: CodeType | None

    @property
    def package(self) -> str:
        """What its relative imports start from."""
        return self.name if Path(self.path).stem == "__init__" else self.name.rpartition(".")[0]


@dataclass
class Reached:
    """What code reaches: local modules by name, and the top-level names of everything else that it imports."""

    local: dict[str, Module] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


class Walk:
    """Follows imports from where they are looked for: `folder` first, then the module search path."""

    def __init__(self, folder: Path | None) -> None:
        self.reached = Reached()
        self._search = [*([str(folder)] if folder else []), *sys.path]
        self._specs: dict[str, importlib.machinery.ModuleSpec | None] = {}
        self._installed: set[str] = set()

    def add(self, names: Iterable[str]) -> None:
        """Follow modules by their names (`a.*`: all in `a`; `a.**`: in packages in it, too), and all that they import.

        Raises:
            Unbundleable: one is local and has no file that can travel.
        """
        waiting = list(names)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name in self.reached.local:
                continue
            seen.add(name)
            if name.endswith("*"):
                package, _, stars = name.rpartition(".")
                waiting.extend(self._inner(package, is_deep=stars == "**"))
                continue
            self.add(_parents(name))  # first: most are of a package that is installed
            if (found := self._local(name)) is None:
                continue
            self.reached.local[name] = found
            if found.code is not None:
                waiting.extend(imports.imported(found.code, found.package))
            waiting.extend(_bound(name))

    def add_missing(self, name: str) -> None:
        """Follow a module that was imported by a made-up name; of a folder without `__init__.py`, all that lie in it.

        Raises:
            Unbundleable: one is local and has no file that can travel.
        """
        self.add([name])
        spec = None if name in self.reached.local else self._spec(name)
        if spec is not None and spec.origin is None:
            self.add([f"{name}.*"])

    def add_code(self, compiled: CodeType, package: str) -> None:
        """Follow what code that belongs to no file imports. Raises Unbundleable."""
        self.add(imports.imported(compiled, package))

    def _local(self, name: str) -> Module | None:
        """Return a local module, None for what is installed, ours or not there."""
        top, parent = name.partition(".")[0], name.rpartition(".")[0]
        if top in _OURS or top == "__main__" or self._is_pythons_own(top):
            return None
        # What lies in an installed package is; a folder without `__init__.py` may be installed in part.
        file, is_package = (None, False) if parent in self._installed else self._file(name)
        if parent in self._installed or (file is not None and not modules.is_users_file(str(file))):
            self._installed.add(name)
            self.reached.others.add(top)
            return None
        if file is None:
            return None
        if not file.is_file():
            raise Unbundleable(
                f"the module {name} comes from {file}, which is no file", "import it from a plain file, or install it"
            )
        return _module(name, file, is_package)

    def _is_pythons_own(self, top: str) -> bool:
        """Tell whether a name is that of a module of Python's own, and no file of the user's comes before that."""
        return top in sys.stdlib_module_names and not modules.is_users_file(str(self._file(top)[0]))

    def _file(self, name: str) -> tuple[Path | None, bool]:
        """Return where a module comes from, and whether it is a package; nowhere where it has no file."""
        loaded = sys.modules.get(name)
        if isinstance(loaded, ModuleType) and isinstance(getattr(loaded, "__file__", None), str):
            return Path(str(loaded.__file__)).absolute(), "__path__" in vars(loaded)
        spec = self._spec(name)
        if spec is None:
            return None, False
        if spec.has_location and spec.origin is not None:
            return Path(spec.origin).absolute(), spec.submodule_search_locations is not None
        return None, False

    def _inner(self, package: str, *, is_deep: bool) -> Iterator[str]:
        """Give the names of the modules that lie in a package."""
        for module in pkgutil.iter_modules(self._places(package) or ()):
            yield f"{package}.{module.name}"
            if is_deep and module.ispkg:
                yield f"{package}.{module.name}.**"

    def _spec(self, name: str) -> importlib.machinery.ModuleSpec | None:
        if name not in self._specs:
            self._specs[name] = self._find(name)
        return self._specs[name]

    def _find(self, name: str) -> importlib.machinery.ModuleSpec | None:
        """Look for a module as importing does, without importing its packages."""
        parent, _, _ = name.rpartition(".")
        path: Iterable[str] = self._search
        if parent:
            places = self._places(parent)
            if places is None:
                return None
            path = places
        for finder in sys.meta_path:
            look = getattr(finder, "find_spec", None)
            is_path = finder is importlib.machinery.PathFinder
            try:
                spec: Any = look(name, path if parent or is_path else None) if look is not None else None
            except KeyError:  # a folder without `__init__.py`, in a package that is not imported
                spec = _namespace(name, path)
            except (ImportError, AttributeError, ValueError):
                continue
            if isinstance(spec, importlib.machinery.ModuleSpec):
                return spec
        return None

    def _places(self, package: str) -> list[str] | None:
        """Return the folders of a package; None for what is none."""
        places: Any = getattr(sys.modules.get(package), "__path__", None)
        if places is None:
            places = getattr(self._spec(package), "submodule_search_locations", None)
        # That of a namespace package asks for its parent, which is not imported.
        return None if places is None else list(getattr(places, "_path", places))


def _namespace(name: str, path: Iterable[str]) -> importlib.machinery.ModuleSpec:
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    folders = (Path(place, name.rpartition(".")[2]) for place in path)
    spec.submodule_search_locations = [str(folder) for folder in folders if folder.is_dir()]
    return spec


def _module(name: str, file: Path, is_package: bool) -> Module:
    base = name.replace(".", "/")
    if file.suffix == ".py":
        path = f"{base}/__init__.py" if is_package else f"{base}.py"
        compiled = None
        with contextlib.suppress(SyntaxError, ValueError):  # for another Python, perhaps: nothing has imported it
            compiled = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
        return Module(name, file, path, compiled)
    suffix = next((one for one in _EXTENSIONS if file.name.endswith(one)), file.suffix)
    return Module(name, file, f"{base}/__init__{suffix}" if is_package else f"{base}{suffix}", None)


def _parents(name: str) -> list[str]:
    parent = name.rpartition(".")[0]
    return [parent] if parent else []


def _bound(name: str) -> set[str]:
    """Return the modules that the globals of a loaded module are, or come from: what was imported by a made-up name."""
    loaded = sys.modules.get(name)
    found: set[str] = set()
    for value in list(vars(loaded).values()) if loaded is not None else ():
        is_defined = isinstance(value, type | FunctionType | Function)
        named = value.__name__ if isinstance(value, ModuleType) else (value if is_defined else type(value)).__module__
        if isinstance(named, str):
            found.add(named)
    return found
