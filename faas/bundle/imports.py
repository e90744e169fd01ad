"""What compiled code imports: read from it, not run, so that imports within functions are seen too."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

_BY_NAME = frozenset({"import_module", "__import__"})


def imported(compiled: CodeType, package: str) -> Iterator[str]:
    """Give the full names of the modules that code imports or may, itself or in what is defined in it.

    `package` is what relative imports start from. Of `from a import b`, both `a` and `a.b` may be modules. Where code
    imports by name (`importlib.import_module`), each text in it may be one; the text `a.`, to which something is put
    (`f"a.{name}"`), may be any in `a`, which is given as `a.*`.
    """
    constants: list[object] = []
    for step in dis.get_instructions(compiled):
        if step.opname == "LOAD_CONST":
            constants.append(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, wanted = constants[-2:]
            yield from _named(str(step.argval), level, wanted, package)
    by_name = not _BY_NAME.isdisjoint(compiled.co_names)
    for constant in compiled.co_consts:
        if isinstance(constant, CodeType):
            yield from imported(constant, package)
        elif by_name and isinstance(constant, str):
            written = constant.strip(".")
            name = absolute(written, len(constant) - len(constant.lstrip(".")) if written else 0, package)
            if name and all(part.isidentifier() for part in name.split(".")):
                yield f"{name}.*" if constant.endswith(".") else name


def _named(name: str, level: object, wanted: object, package: str) -> Iterator[str]:
    found = absolute(name, level if isinstance(level, int) else 0, package)
    if not found:
        return
    yield found
    for one in wanted if isinstance(wanted, tuple) else ():
        if one != "*":
            yield f"{found}.{one}"


def absolute(name: str, level: int, package: str) -> str:
    """Return a name as it is from the top; empty where `level` dots lead out of all packages."""
    if level == 0:
        return name
    parents = package.split(".") if package else []
    if level > len(parents):
        return ""
    base = ".".join(parents[: len(parents) - level + 1])
    return f"{base}.{name}" if name else base


def texts(compiled: CodeType) -> Iterator[str]:
    """Give the texts that stand in code."""
    for constant in compiled.co_consts:
        if isinstance(constant, CodeType):
            yield from texts(constant)
        elif isinstance(constant, str):
            yield constant
