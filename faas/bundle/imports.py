"""What compiled code imports: read from it, not run, so that imports within functions are seen too."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from types import CodeType

_BY_NAME = frozenset({"import_module", "__import__"})
_LISTING = frozenset({"iter_modules", "walk_packages"})
_OWN_FOLDER = frozenset({"__file__", "__path__"})


def imported(compiled: CodeType, package: str) -> Iterator[str]:
    """Give the full names of the modules that code imports or may, itself or in what is defined in it.

    `package` is what relative imports start from. Of `from a import b`, both `a` and `a.b` may be modules. Where code
    imports by name (`importlib.import_module`), each text in it may be one; the text `a.`, to which something is put
    (`f"a.{name}"`), may be any in `a`, which is given as `a.*`. So is what code may find in the folders of packages: in
    that of its own, and where it lists modules (`pkgutil`) in those of all that it imports; where it walks through
    them, as `a.**`.
    """
    found, names = list(_imported(compiled, package)), used(compiled)
    yield from found
    is_listing, all_of = not names.isdisjoint(_LISTING), ".**" if "walk_packages" in names else ".*"
    if package and not names.isdisjoint(_BY_NAME) and (is_listing or not names.isdisjoint(_OWN_FOLDER)):
        yield package + all_of
    if is_listing:
        yield from (name + all_of for name in found if not name.endswith("*"))


def used(code: CodeType) -> set[str]:
    """Return the names that code, and what is defined in it, uses as such: of globals and of attributes."""
    inner = (used(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _imported(compiled: CodeType, package: str) -> Iterator[str]:
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
            yield from _imported(constant, package)
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
    yield from _texts(compiled.co_consts)


def _texts(constants: Iterable[object]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, CodeType):
            yield from texts(constant)
        elif isinstance(constant, tuple | frozenset):
            yield from _texts(constant)
        elif isinstance(constant, str):
            yield constant
