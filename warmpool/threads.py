"""Thread counts of numeric libraries: one in a zygote, a worker's share in the worker.

A library reads its variable once, when it is loaded, and in a forked worker it was loaded long before, with one thread.
So the counts are also set through the libraries' own functions, which a zygote looks up once its imports are done.
"""

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Self

from warmpool import cpu

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "ORT_DISABLE_TELEMETRY": "1",
}
"""What a zygote is started with: importing numpy, transformers or onnxruntime then leaves it with a single thread."""

_SETTERS = {
    "OMP_NUM_THREADS": ["omp_set_num_threads"],
    "OPENBLAS_NUM_THREADS": [
        "openblas_set_num_threads",
        "openblas_set_num_threads64_",
        "scipy_openblas_set_num_threads",
        "scipy_openblas_set_num_threads64_",
    ],
}
_LIBRARY = re.compile(r"/(libgomp|libomp|libiomp5|lib(?:scipy_)?openblas)[^/]*\.so[^/]*$")

Setter = Callable[[int], object]


def plan(environ: Mapping[str, str], num_threads: int) -> dict[str, str]:
    """Return the three thread variables of a worker: the user's own values win, OMP_NUM_THREADS standing in for all."""
    omp = environ.get("OMP_NUM_THREADS", "")
    if _count(omp) is None:
        omp = str(num_threads)
    planned = {"OMP_NUM_THREADS": omp}
    for name in ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        planned[name] = str(_count(environ.get(name, "")) or _count(omp))
    return planned


def chosen(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables of `ONE_THREAD` that code in a zygote has set otherwise, for itself; None: taken out."""
    return {name: environ.get(name) for name, value in ONE_THREAD.items() if environ.get(name) != value}


@contextlib.contextmanager
def noting_torch() -> Iterator[list[int]]:
    """Note the counts that code gives torch while the block runs, for the workers: a zygote keeps to one thread."""
    torch: Any = sys.modules.get("torch")
    counts: list[int] = []
    if torch is None or not hasattr(torch, "set_num_threads"):
        yield counts
        return
    set_num_threads = torch.set_num_threads

    def note(count: int) -> None:
        if not isinstance(count, int) or count < 1:
            set_num_threads(count)  # it says what is wrong
        counts.append(count)

    torch.set_num_threads = note
    try:
        yield counts
    finally:
        torch.set_num_threads = set_num_threads


class Limits:
    """Where the CPU quota stands and how to set the counts: looked up once, in the zygote; applied in each worker.

    `torch_threads` is the count that code has chosen for torch itself.
    """

    def __init__(
        self, quota_files: cpu.QuotaFiles, setters: list[tuple[str, Setter]], torch_threads: int | None = None
    ) -> None:
        self._quota_files = quota_files
        self._setters = setters  # each with the name of its variable
        self._torch_threads = torch_threads

    @classmethod
    def find(cls, torch_threads: int | None = None) -> Self:
        """Look at this process's control groups and at the libraries it has loaded by now."""
        return cls(cpu.find_quota_files(), _find_setters(), torch_threads)

    def apply(self, environ: MutableMapping[str, str], num_workers: int) -> None:
        """Give this process its share of the CPUs: the variables in `environ`, and the libraries that are loaded.

        A zygote's have one thread each: where that is the share, they are left alone.
        """
        planned = plan(environ, cpu.read_threads_per_worker(self._quota_files, num_workers))
        environ.update(planned)
        if any(_count(value) != 1 for value in planned.values()):
            self.set(planned)
        if self._torch_threads is not None:
            sys.modules["torch"].set_num_threads(self._torch_threads)

    def set(self, planned: Mapping[str, str]) -> None:
        """Set the counts of a `plan` on the libraries that are loaded, and on torch, which tells its other threads."""
        counts = {name: _count(value) or 1 for name, value in planned.items()}
        for variable, set_num_threads in self._setters:
            set_num_threads(counts[variable])
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "set_num_threads"):
            torch.set_num_threads(counts["OMP_NUM_THREADS"])


def _find_setters() -> list[tuple[str, Setter]]:
    setters: list[tuple[str, Setter]] = []
    for path in _loaded_libraries():
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        variable = "OPENBLAS_NUM_THREADS" if "openblas" in os.path.basename(path) else "OMP_NUM_THREADS"
        setters += [(variable, getattr(library, name)) for name in _SETTERS[variable] if hasattr(library, name)]
    return setters


def _count(value: str) -> int | None:
    """Read a variable as OpenMP does, the first of a list with one for each nesting level; None is nonsense."""
    first = value.partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _loaded_libraries() -> list[str]:
    with open("/proc/self/maps") as maps:
        paths = {line.rstrip("\n").partition("/")[2] for line in maps if ".so" in line}
    return sorted("/" + path for path in paths if _LIBRARY.search("/" + path))
