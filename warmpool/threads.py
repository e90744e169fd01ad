"""Thread counts of numeric libraries: one in a zygote, a worker's share in the worker.

A library reads its variable once, when it is loaded, and in a forked worker it was loaded long before, with one thread. So
the counts are also set through the libraries' own functions, which a zygote looks up after its imports and before any fork.
"""

import ctypes
import os
import re
import sys
from collections.abc import Callable, Mapping

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""What a zygote is started with, so that importing numpy or transformers leaves it with a single thread."""

_OPENBLAS_SETTERS = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "scipy_openblas_set_num_threads64_",
)
_LIBRARY = re.compile(r"/(libgomp|libomp|libiomp5|lib(?:scipy_)?openblas)[^/]*\.so[^/]*$")

Setter = Callable[[int], object]


def plan(environ: Mapping[str, str], num_threads: int) -> dict[str, str]:
    """Return the three thread variables of a worker: the user's own values win, OMP_NUM_THREADS standing for all."""
    omp = environ.get("OMP_NUM_THREADS", str(num_threads))
    return {
        "OMP_NUM_THREADS": omp,
        "MKL_NUM_THREADS": environ.get("MKL_NUM_THREADS", omp),
        "OPENBLAS_NUM_THREADS": environ.get("OPENBLAS_NUM_THREADS", omp),
    }


def find_setters() -> dict[str, list[Setter]]:
    """Find the functions of the libraries loaded by now that set a thread count, by the variable that rules them."""
    setters: dict[str, list[Setter]] = {"OMP_NUM_THREADS": [], "OPENBLAS_NUM_THREADS": []}
    for path in _loaded_libraries():
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        if "openblas" in os.path.basename(path):
            names, variable = _OPENBLAS_SETTERS, "OPENBLAS_NUM_THREADS"
        else:
            names, variable = ("omp_set_num_threads",), "OMP_NUM_THREADS"
        setters[variable] += [getattr(library, name) for name in names if hasattr(library, name)]
    return setters


def apply(planned: Mapping[str, str], setters: Mapping[str, list[Setter]]) -> None:
    """Set the counts of `plan` on the libraries that are loaded, torch last; other threads of a worker follow torch."""
    for variable, functions in setters.items():
        for set_num_threads in functions:
            set_num_threads(_count(planned[variable]))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(_count(planned["OMP_NUM_THREADS"]))


def _count(value: str) -> int:
    """Read a variable as OpenMP does: the first of a list (one for each nesting level); nonsense counts as one."""
    first = value.split(",")[0].strip()
    return max(1, int(first)) if first.isdecimal() else 1


def _loaded_libraries() -> list[str]:
    with open("/proc/self/maps") as maps:
        paths = {line.rstrip("\n").partition("/")[2] for line in maps if ".so" in line}
    return sorted("/" + path for path in paths if _LIBRARY.search("/" + path))
