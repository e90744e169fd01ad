"""The models that peers serve, and how they are to batch them. What a peer is given, its processes inherit.

`FAAS_BENCH_MODEL` names the model. `FAAS_BENCH_MODEL_CPU` is a file of eight bytes: the CPU seconds of the thread
inside `predict`, for which a peer has no figure.
"""

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.functions.linear import TARGET, Linear, slo_ms
from benchmarks.functions.plain import PlainEmbed

MODEL = "FAAS_BENCH_MODEL"
MODEL_CPU = "FAAS_BENCH_MODEL_CPU"
WAIT_S = 0.005
"""How long a peer gathers from the first item on."""

_SECONDS = struct.Struct("d")


@dataclass(frozen=True)
class Kind:
    """A model: a class like any user's, the largest batch, and the time in which an answer is wanted."""

    cls: Any
    max_batch_size: int
    slo_ms: int


KINDS = {"embed": Kind(PlainEmbed, 32, 60_000), "linear": Kind(Linear, TARGET, int(slo_ms()))}


def kind() -> Kind:
    """Return the kind of model that this process is to serve."""
    return KINDS[os.environ.get(MODEL, "embed")]


class Metered:
    """The model that this process is to serve, set up. It writes down its CPU time where there is a file for it."""

    def __init__(self) -> None:
        self._model = kind().cls()
        self._model.setup()
        path = os.environ.get(MODEL_CPU)
        self._meter = None if path is None else _mapped(Path(path))

    def predict(self, items: list[str]) -> list[Any]:
        """Return an answer for each of the items."""
        began_s = time.thread_time()
        answers: list[Any] = self._model.predict(list(items))
        if self._meter is not None:
            spent_s = _SECONDS.unpack_from(self._meter)[0] + time.thread_time() - began_s
            _SECONDS.pack_into(self._meter, 0, spent_s)
        return answers


def _mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), _SECONDS.size)


def make_meter(path: Path) -> None:
    """Make the file that a `Metered` writes to."""
    path.write_bytes(_SECONDS.pack(0.0))


def read_meter(path: Path) -> float:
    """Return the CPU seconds that a `Metered` has spent inside its model."""
    seconds: float = _SECONDS.unpack(path.read_bytes())[0]
    return seconds
