"""A model whose batch of b items takes a fixed amount of work, 4 ms for each and 20 ms besides, on one core.

Workload 1 of `benchmarks.scheduling`, four times as slow: HTTP is then little of it. What is found once a run comes by
variables, so that every server has the same to do: `FAAS_BENCH_ROUNDS_PER_MS`, how much work a millisecond is, and
`FAAS_BENCH_SLO_MS`, the time that two batches of `TARGET` hardly ever exceed here, which is what is promised.
"""

import hashlib
import os
import time
from typing import Any

from faas import Batching, inference_function

ALPHA_MS, BETA_MS = 4.0, 20.0
TARGET = 20
ROUNDS_PER_MS = "FAAS_BENCH_ROUNDS_PER_MS"
SLO_MS = "FAAS_BENCH_SLO_MS"
_TRIED_ROUNDS = 5000
_TRIES = 40


class Linear:
    """Works without holding Python's lock, as a model does."""

    def setup(self) -> None:
        self.rounds_per_ms = float(os.environ[ROUNDS_PER_MS])

    def predict(self, items: list[str]) -> list[str]:
        _work(round(self.rounds_per_ms * (ALPHA_MS * len(items) + BETA_MS)))
        return items


def slo_ms() -> float:
    """Return what is promised: by the model's own figures, where nothing was found about this machine."""
    return float(os.environ.get(SLO_MS, 2.0 * (ALPHA_MS * TARGET + BETA_MS)))


promised: Any = inference_function(
    name="promised", batching=Batching(max_batch_size=64, slo_ms=slo_ms()), warmup=["x"]
)(Linear)
"""The model with a promise."""

at_target: Any = inference_function(
    name="at-target", batching=Batching(max_batch_size=TARGET, idle="now"), warmup=["x"]
)(Linear)
"""The model without one, in batches of `TARGET`: its rate is the capacity."""


def rounds_per_ms() -> float:
    """Return how much work takes a millisecond of a core that does nothing else: the most of many tries."""
    return _TRIED_ROUNDS / min(_took_ms() for _ in range(_TRIES))


def _took_ms() -> float:
    began_s = time.thread_time()
    _work(_TRIED_ROUNDS)
    return (time.thread_time() - began_s) * 1e3


def _work(num_rounds: int) -> None:
    hashlib.pbkdf2_hmac("sha256", b"work", b"salt", num_rounds)
