"""Trials of the ways to load: the files made once a run, each trial in a process of its own."""

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.area import Bench
from benchmarks.processes import script

_READ_BYTES = 16 << 20
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # two that spin on busy cores would be all that is measured


@dataclass(frozen=True)
class Trial:
    """One load and the first inference after it."""

    load_ms: float
    inference_ms: float
    logits: list[float]

    @property
    def total_ms(self) -> float:
        """From nothing to the first answer."""
        return self.load_ms + self.inference_ms


def size_of(bench: Bench) -> str:
    """The name of the module's size: 2.1 GB, or 0.2 in a quick run."""
    return bench.choose("full", "quick")


async def files(bench: Bench, size: str) -> Path:
    """The folder with the module in every form, made at the first call."""
    folder = bench.home / f"llama-{size}"
    if not folder.exists():
        folder.mkdir()
        async with script("-m", "benchmarks.loading", "make", str(folder), size) as process:
            if await process.wait() != 0:
                raise RuntimeError(f"making the files ended with status {process.returncode}")
        os.sync()  # pages that are still to be written cannot be dropped, and writing them would be in the way
    return folder


async def trial(way: str, folder: Path, size: str) -> Trial:
    """Load one way. Raises RuntimeError when it fails."""
    async with script("-m", "benchmarks.loading", way, str(folder), size, **_ONE_THREAD) as process:
        assert process.stdout is not None
        lines = (await process.stdout.read()).splitlines()
        if await process.wait() != 0 or not lines:
            raise RuntimeError(f"loading by {way} ended with status {process.returncode}")
    return Trial(**json.loads(lines[-1]))


def to_and_fro(ways: Iterable[str], num_rounds: int) -> Iterator[str]:
    """Name each way once a round, every other round backwards.

    What a trial leaves behind, such as memory that a host has to give anew, is so not always met by the same next one.
    """
    order = list(ways)
    for number in range(num_rounds):
        yield from order if number % 2 == 0 else reversed(order)


def same_answers(answers: Iterable[list[float]]) -> None:
    """Raise RuntimeError unless all logits are the same, but for the order of sums."""
    first, *others = answers
    for other in others:
        if not all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4) for a, b in zip(first, other, strict=True)):
            raise RuntimeError(f"two ways to load answer differently: {first} and {other}")


def drop_from_cache(place: Path) -> None:
    """Have a file, or all files of a folder, read from the disk when they are next used.

    What the disk itself, or a host under a virtual machine, keeps is out of reach.
    """
    for path in _files_of(place):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def bring_into_cache(place: Path) -> None:
    """Have a file, or all files of a folder, in the page cache."""
    for path in _files_of(place):
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass


def _files_of(place: Path) -> list[Path]:
    return list(place.iterdir()) if place.is_dir() else [place]
