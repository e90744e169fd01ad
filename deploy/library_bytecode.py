"""The bytecode of the library that a base's own Python has, as a layer on top of it.

Few bases have any that is used: official images of Python come without, and where the times of files were made equal,
as in layers, what there is fits its sources no more. Nothing can be written in an image when it runs, so that each
start would compile the some two hundred modules that it imports.
"""

import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from deploy.image.layer import File, Layer, write
from deploy.image.layer_cache import LayerCache
from deploy.wheels import Step, compile_all, key_of

_LEFT_OUT = "site-packages|dist-packages|(?:.*/)?tests?|idlelib|lib2to3|tkinter|turtledemo|ensurepip"


class _Nothing(Exception):
    """The base has no library of that Python."""


def layers(
    base: str,
    tars: Callable[[], Iterable[Path]],
    *,
    python: str,
    cache: LayerCache,
    step: Step = lambda text: None,
) -> list[Layer]:
    """The layer for a base; none where it has no library of the Python `python` (`3.11`).

    That is to be the Python of this process.
    base: what tells it from all others, such as its digest
    tars: gives its layers as files, the lowest first, each there until the next is asked for; only asked where the
    layer is not in the cache

    Raises:
        ImageError: they cannot be had.
    """

    def make(path: Path) -> Layer:
        with tempfile.TemporaryDirectory(prefix="faas-library-") as scratch:
            root = Path(scratch)
            for tar in tars():
                for name, source in sources(tar, python):
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_bytes(source)
            if not any(root.iterdir()):
                raise _Nothing
            step("compiling the base's library")
            compile_all(root, "/")
            made = sorted(root.rglob("__pycache__/*.pyc"))
            files = [File(f"/{one.relative_to(root)}", one) for one in made]
            files += [File(f"/{one.relative_to(root)}", mode=0o755) for one in {one.parent for one in made}]
            return write(files, path, created_by=f"faas: bytecode of {len(made)} modules of the base")

    try:
        return [cache.get(key_of("library", base, python, sys.version), make)]
    except _Nothing:
        return []


def sources(tar: Path, python: str) -> Iterator[tuple[str, bytes]]:
    """Yield the modules of a Python's library in a layer: their paths below the root, and what is in them.

    A layer that is compressed in a way that this Python cannot read has none.
    """
    wanted = re.compile(rf"(?:[^/]+/)*lib(?:64)?/python{re.escape(python)}/(?!(?:{_LEFT_OUT})/).+\.py")
    try:
        with tarfile.open(tar, "r:*") as opened:
            for member in opened:
                name = member.name.removeprefix("./").lstrip("/")
                if member.isreg() and wanted.fullmatch(name) and ".." not in name.split("/"):
                    file = opened.extractfile(member)
                    assert file is not None
                    yield name, file.read()
    except tarfile.ReadError:
        return
