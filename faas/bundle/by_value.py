"""Pickling what no file holds: functions and classes of `__main__`, of notebook cells, of functions' bodies.

What a module with a file defines goes by name, since the file travels. What goes by value refers to its module by name
too: all functions of one module share one set of globals again, which holds what they reach. Code is marshalled, with
the paths of its files taken out, so that equal code gives equal bytes.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import cloudpickle

from faas import modules, settings
from faas.bundle import classes, rebuilt, reducers
from faas.bundle import names as names_of
from faas.bundle.errors import Unbundleable
from faas.bundle.rebuilt import MAIN
from faas.bundle.shared import Held, Reference
from faas.function import Function
from faas.spec import FunctionSpec

MAX_VALUE_BYTES: Final = 8 << 20
"""The largest array, tensor or text that travels by value: what is larger is state, and belongs into a snapshot."""

_SETTINGS: Final = tuple(FunctionSpec.__dataclass_fields__)


class ByValue(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles, and afterwards holds what it met.

    codes: the code that goes by value, with the package that its relative imports start from
    modules: the names of the modules that what is pickled comes from
    made: the names of modules that are to be made for code that goes by value
    secrets: the names of variables of this environment whose secret values are in what is pickled

    `has_file` tells of a module whether what it defines goes by name, and `held` what modules hold.
    """

    def __init__(self, file: io.BytesIO, has_file: Callable[[str], bool], held: Held) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.codes: list[tuple[CodeType, str]] = []
        self.modules: set[str] = set()
        self.made: dict[str, None] = {}
        self.secrets: dict[str, None] = {}
        self._files: dict[str, str] = {}
        self._namespaces: dict[int, str] = {}
        self._sets: dict[int, reducers.Set] = {}
        self._has_file, self._held = has_file, held
        self._secret_names = settings.secrets()

    @property
    def files(self) -> Mapping[str, str]:
        """The files that code was compiled from: as Python named them -> as they are named in the bundle."""
        return self._files

    def persistent_id(self, one: Any) -> reducers.Set | Reference | None:
        """Called by pickle for every object: refuse what is too large, note where it comes from, put sets in order."""
        kind = type(one)
        if kind is str:
            self.secrets |= {name: None for secret, name in self._secret_names.items() if secret in one}
        if (place := self._held.place(one)) is not None:
            self.modules.add(place.module)
            return place
        if kind is set or kind is frozenset:
            return self._sets.setdefault(id(one), reducers.Set(one))
        self.modules.add(str(kind.__module__))
        if isinstance(one, type | FunctionType):
            self.modules.add(str(one.__module__))
        elif kind is ModuleType:
            self.modules.add(str(vars(one)["__name__"]))
        _refuse_state(one)
        return None

    def reducer_override(self, one: Any) -> Any:
        """Called by pickle for what is no plain value: how the object is taken apart."""
        if isinstance(one, Function):
            return self._function_of_ours(one)
        if isinstance(one, FunctionType):
            if self.goes_by_name(one):
                return NotImplemented
            return reducers.single_dispatch(one) if reducers.is_single_dispatch(one) else self._function(one)
        if isinstance(one, BaseException) and reducers.is_plain_exception(one):
            return rebuilt.exception, (type(one), one.args), vars(one)
        if isinstance(one, type) and reducers.is_made_by_python(one) and not self.goes_by_name(one):
            return self._class(one)
        if isinstance(one, ModuleType) and not self._has_file(one.__name__):
            return self._module(one)
        if type(one) in reducers.REDUCERS:
            return reducers.REDUCERS[type(one)](self, one)
        if isinstance(one, threading.local):
            return type(one), ()
        if type(one) not in self.dispatch_table and reducers.is_delegating(one):
            return reducers.delegating(one)
        return super().reducer_override(one)

    def goes_by_name(self, one: Any) -> bool:
        """Tell whether a function, a class or the like is what its module, which has a file, has under its name."""
        module = getattr(one, "__module__", None)
        name = str(getattr(one, "__qualname__", None) or getattr(one, "__name__", ""))
        if not isinstance(module, str) or not self._has_file(module):
            return False
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return found is one

    def _function_of_ours(self, function: Function) -> Any:
        module = str(function.__module__)
        if self._has_file(module):
            for name, value in vars(sys.modules[module]).items():
                if value is function:
                    return getattr, (sys.modules[module], name)
        settings = {name: getattr(function.spec, name) for name in _SETTINGS}
        return rebuilt.faas_function, (), (function.user, settings), None, None, rebuilt.set_faas_function

    def _function(self, function: FunctionType) -> Any:
        code = function.__code__
        package = str(function.__globals__.get("__package__") or "")  # of a script that is run by -m
        self.codes.append((code, package))
        names = [*names_of.global_names(code), *names_of.named_in_text(code)]
        names += names_of.annotated_names(function.__annotations__)
        names += ["__package__"] if package else []
        module = self._module_of(function)
        self.modules.add(module)
        self._place(code.co_filename, module)
        globals_ = self._globals(module, function.__globals__, names, function)
        state = {
            "globals": globals_,
            "imports": names_of.submodules(code, globals_.values()),
            "attributes": vars(function),
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__annotations__": function.__annotations__,
            "__qualname__": function.__qualname__,
            "__module__": function.__module__,
            "__doc__": function.__doc__,
        }
        made = (module, self.marshalled(code), function.__name__, function.__closure__)
        return rebuilt.function, made, state, None, None, rebuilt.set_function

    def _module_of(self, function: FunctionType) -> str:
        """Return the name of the module whose globals a function has; globals of no module are given one."""
        scope = function.__globals__
        name = str(scope.get("__name__", "nameless"))
        module = sys.modules.get(name)
        if module is None or vars(module) is not scope:
            return self._namespaces.setdefault(id(scope), f"{name}_{len(self._namespaces)}")
        return name

    def _globals(self, module: str, scope: Mapping[str, Any], names: Iterable[str], one: Any) -> dict[str, Any]:
        """Return the globals that a function or class has its module hold: none where the module's file does."""
        if self._has_file(module):
            return {}
        self.made[module] = None
        found = {name: scope[name] for name in dict.fromkeys(names) if name in scope}
        for name, value in found.items():
            _refuse_state(value, f"the global {name}")
        own = str(one.__name__)
        return {**found, own: one} if scope.get(own) is one else found

    def marshalled(self, code: CodeType) -> bytes:
        """Return code as bytes, equal for equal code; the paths of its files are those in the bundle."""
        return marshal.dumps(self._relocated(code), 2)  # 2: what is shared in memory makes no difference

    def _relocated(self, code: CodeType) -> CodeType:
        consts = tuple(self._relocated(one) if isinstance(one, CodeType) else one for one in code.co_consts)
        return code.replace(co_consts=consts, co_filename=self._file(code.co_filename))

    def _place(self, filename: str, module: str) -> None:
        """Settle where the source of a module of the user's that was loaded from a file lies in the bundle."""
        loaded = sys.modules.get(module)
        if getattr(loaded, "__file__", None) == filename and modules.is_users_file(filename):
            inner = "/__init__.py" if "__path__" in vars(sys.modules[module]) else ".py"
            self._files.setdefault(filename, f"{module.replace('.', '/')}{inner}")

    def _file(self, filename: str) -> str:
        if filename.startswith("<") and not filename.startswith("<ipython"):
            return filename
        if filename.startswith("/") and not modules.is_users_file(filename):  # what `dataclass` has put into a class
            return f"<{'/'.join(Path(filename).parts[-2:])}>"
        return self._files.setdefault(filename, f"cell_{len(self._files)}.py")

    def _class(self, kind: Any) -> Any:
        module = str(kind.__module__)
        scope = vars(sys.modules[module]) if module in sys.modules else {}
        globals_ = self._globals(module, scope, names_of.annotated_names(vars(kind).get("__annotations__", {})), kind)
        return classes.reduce(kind, module, globals_)

    def _module(self, module: ModuleType) -> Any:
        if module.__name__ == MAIN:
            raise TypeError("refers to the module __main__ itself: import the names that it needs")
        self.made[module.__name__] = None
        globals_ = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        return rebuilt.module, (module.__name__,), (module.__name__, globals_), None, None, rebuilt.set_globals


def _refuse_state(one: Any, variable: str | None = None) -> None:
    """Refuse what is state and no code: what is large, or lies on a device that there may be none of elsewhere."""
    size, device = _size(one), _device(one)
    if device != "cpu":
        raise Unbundleable(
            f"{variable or 'something'} would travel in the code: {type(one).__name__} on {device}",
            "load it in setup(), which finds the device of its instance",
            variable,
        )
    if size > MAX_VALUE_BYTES:
        raise Unbundleable(
            f"{variable or 'something'} would travel in the code: {type(one).__name__} of {size / 1e6:.1f} MB",
            "load it in setup(), so that the snapshot holds it, or from a file that travels: include=",
            variable,
        )


def _device(one: Any) -> str:
    torch = sys.modules.get("torch")
    return str(one.device) if torch is not None and isinstance(one, torch.Tensor) else "cpu"


def _size(one: Any) -> int:
    """Return the size of what an array, a tensor or a text holds; 0 for all else."""
    if isinstance(one, str | bytes | bytearray):
        return len(one)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(one, numpy.ndarray):
        return int(one.nbytes)
    if torch is not None and isinstance(one, torch.Tensor):
        return int(one.untyped_storage().nbytes())
    return 0
