"""Who calls: models with a linear time for a batch, and renewal processes of arrivals, seeded."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MOST = 4096
"""The largest batch that any rule forms."""


@dataclass(frozen=True)
class Model:
    """A batch of b takes alpha_ms * b + beta_ms, and an answer is promised within slo_ms."""

    alpha_ms: float
    beta_ms: float
    slo_ms: float

    @property
    def target(self) -> int:
        """The largest batch of which two in a row keep the promise, 1 at least."""
        return max(1, math.floor((self.slo_ms / 2 - self.beta_ms) / self.alpha_ms + 1e-9))

    @property
    def seconds(self) -> list[float]:
        """What a batch takes, by its size."""
        return [(self.alpha_ms * size + self.beta_ms) / 1000 for size in range(MOST + 1)]


@dataclass(frozen=True)
class Workload:
    """Models, the share of calls that each gets, and the squared coefficient of variation of the times between them."""

    name: str
    models: tuple[Model, ...]
    weights: tuple[float, ...]
    variation: float = 1.0

    @property
    def capacity(self) -> float:
        """Calls a second of a device that does nothing but run batches of the models' targets."""
        each = zip(self.models, self.weights, strict=True)
        busy = sum(weight * model.seconds[model.target] / model.target for model, weight in each)
        return 1.0 / busy


def zipf(num: int, exponent: float) -> tuple[float, ...]:
    """Return shares that fall with the rank's power, 1 in sum."""
    shares = [1.0 / rank**exponent for rank in range(1, num + 1)]
    return tuple(share / sum(shares) for share in shares)


_MIXED = (
    *(Model(0.3, 2, 25), Model(1, 5, 50), Model(0.5, 4, 50), Model(1, 5, 100)),
    *(Model(2, 8, 100), Model(1, 5, 200), Model(3, 10, 200), Model(4, 20, 400)),
)

WORKLOADS = (
    Workload("1 model, Poisson", (Model(1, 5, 50),), (1.0,)),
    Workload("1 model, bursty", (Model(1, 5, 50),), (1.0,), 4.0),
    Workload("8 equal models", (Model(1, 5, 100),) * 8, (1 / 8,) * 8),
    Workload("8 models, Zipf", (Model(1, 5, 100),) * 8, zipf(8, 0.9)),
    Workload("8 models, mixed promises", _MIXED, zipf(8, 0.9), 2.0),
)


class Arrivals:
    """The arrivals at each model of a workload, drawn once for a seed, and stretched to whatever rate is asked for."""

    def __init__(self, workload: Workload, seed: int, most_calls: float) -> None:
        self._weights = workload.weights
        self._moments = [
            _moments(np.random.default_rng([seed, number]), workload.variation, weight * most_calls)
            for number, weight in enumerate(workload.weights)
        ]

    def at(self, rate: float, duration_s: float) -> list[list[float]]:
        """Return for each model when its calls come, in seconds, at `rate` calls a second in all."""
        return list(self._stretched(rate, duration_s))

    def _stretched(self, rate: float, duration_s: float) -> Iterator[list[float]]:
        for moments, weight in zip(self._moments, self._weights, strict=True):
            scaled = moments / (weight * rate)
            if scaled[-1] < duration_s:
                raise ValueError(f"{len(scaled)} arrivals are too few for {duration_s:g} s at {rate:g} calls a second")
            yield scaled[: np.searchsorted(scaled, duration_s)].tolist()


def _moments(rng: np.random.Generator, variation: float, num: float) -> np.ndarray:
    """Return arrivals at a rate of 1, the first one after a uniform share of a gap; more than `num` of them."""
    drawn = math.ceil(num + 6 * math.sqrt(variation * num) + 20)
    gaps = rng.gamma(1 / variation, variation, drawn)  # at 1.0 exponential
    gaps[0] = rng.random()
    return np.cumsum(gaps)
