"""Functions in files of their own, made ready once, and copies of them under other names.

A copy costs no time to make ready: what that would find is what was found of the first, but for the names.
"""

from pathlib import Path

import msgspec

from benchmarks.processes import ROOT, own_places, running
from faas.preparation import Preparation, Preparations, file_digest

IMPORTABLE = {"PYTHONPATH": str(ROOT)}
"""What a process that runs such a file has to be given, for the file to import what lies here."""


async def first(home: Path, name: str, text: str) -> Preparation:
    """Write a file of one function, which `text` calls `name`, and make it ready. Raises RuntimeError."""
    file = _file(home, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    command = ["-m", "faas.cli.main", "snapshot", "create", str(file)]
    async with running(name, command, home / f"{name}.log", **own_places(home), **IMPORTABLE) as server:
        await server.process.wait()
    made = _store(home).read(name)
    if made is None:
        raise RuntimeError(f"{name} cannot be made ready: {server.tail()}")
    return made


def copy(home: Path, made: Preparation, name: str) -> Preparation:
    """Have the same function, in a file of its own, as `name`."""
    original, file = _file(home, made.name), _file(home, name)
    file.write_text(original.read_text().replace(f'"{made.name}"', f'"{name}"'))
    sources = made.origin.sources | {str(file): file_digest(file) or ""}
    del sources[str(original)]
    description = msgspec.structs.replace(
        made.description, name=name, module=file.stem, target=f"{file}:{made.python_name}"
    )
    origin = msgspec.structs.replace(made.origin, sources=sources)
    copied = msgspec.structs.replace(made, description=description, origin=origin, siblings=(name,))
    _store(home).write(copied)
    return copied


def target(home: Path, name: str) -> str:
    """Return the target by which `faas up` serves a function, or a copy."""
    return str(_file(home, name))


def _file(home: Path, name: str) -> Path:
    return home / "apps" / f"{name.replace('-', '_')}.py"


def _store(home: Path) -> Preparations:
    return Preparations(home / "snapshots")
