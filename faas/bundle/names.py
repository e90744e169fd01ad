"""The names that compiled code looks for: among globals, in annotations that are text, as attributes of packages."""

from __future__ import annotations

import contextlib
import dis
import sys
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

from faas.bundle import imports

_BY_TEXT = frozenset({"getattr", "attrgetter"})
_OF_GLOBALS = frozenset({"globals", "eval", "exec", "vars"})


def global_names(code: CodeType) -> Iterator[str]:
    """Give the names that code, and what is defined in it, may look for among globals."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


def named_in_text(code: CodeType) -> Iterator[str]:
    """Give the names that code may look for among globals by text: `globals()["K"]`, `eval("K * x")`."""
    if _OF_GLOBALS.isdisjoint(imports.used(code)):
        return
    for text in imports.texts(code):
        with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most texts are no code
            yield from global_names(compile(text, "<text>", "exec"))


def annotated_names(annotations: Mapping[str, Any]) -> Iterator[str]:
    """Give the names in annotations that are text, or have text in them: `"Node"`, `list["Node"]`."""
    for annotation in annotations.values():
        yield from _named(annotation)


def _named(annotation: Any) -> Iterator[str]:
    text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
    if isinstance(text, str):
        with contextlib.suppress(SyntaxError, ValueError):
            yield from compile(text, "<annotation>", "eval").co_names
    for part in typing.get_args(annotation):
        yield from _named(part)


def submodules(code: CodeType, values: Iterable[Any]) -> list[str]:
    """Return the loaded modules that code reaches as attributes of packages: nobody else may import them."""
    names = imports.used(code)
    if not names.isdisjoint(_BY_TEXT):
        names.update(*(text.split(".") for text in imports.texts(code)))
    packages = [f"{value.__name__}." for value in values if isinstance(value, ModuleType) and "__path__" in vars(value)]
    loaded = sorted(name for name in sys.modules if packages and name.startswith(tuple(packages)))
    return [name for name in loaded if names.issuperset(name.split(".")[1:])]
