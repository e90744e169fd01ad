"""A function whose versions are told apart by a number, with 8 MiB of weights each."""

import os

import numpy as np

from faas import Batching, Scaling, inference_function

NUMBER = "FAAS_BENCH_NUMBER"
_NUM_WEIGHTS = 2_000_000


@inference_function(name="numbered", batching=Batching(max_batch_size=8), scaling=Scaling(min_instances=1), warmup=[0])
class Numbered:
    def setup(self) -> None:
        self.weights = np.full(_NUM_WEIGHTS, int(os.environ[NUMBER]), dtype=np.float32)

    def predict(self, items: list[int]) -> list[int]:
        """Return the version's number for each item."""
        return [int(self.weights.mean()) for _ in items]
