"""When requests are due: endless, increasing instants in seconds from the start of a run.

Pure and seeded: the same arguments give the same instants, whatever the number of processes that share them.
"""

from collections.abc import Iterator
from itertools import count
from typing import Literal

import numpy as np

Arrivals = Literal["poisson", "constant", "gamma"]

_CHUNK = 1024  # gaps drawn at a time: a draw of one costs as much as a draw of a thousand
_ARRIVALS_STREAM = 0  # keeps these draws apart from those of the bodies under the same seed


def planned_instants(kind: Arrivals, rate_per_s: float, *, seed: int = 0, gamma_shape: float = 0.25) -> Iterator[float]:
    """Yield the instants of `kind` at a mean of `rate_per_s`.

    "constant" starts at 0 and keeps exactly 1/rate; "poisson" has exponential gaps; "gamma" has gamma gaps of
    `gamma_shape`, whose coefficient of variation is 1/sqrt(shape), so that a shape below 1 comes in bursts.
    """
    if kind == "constant":
        return (index / rate_per_s for index in count())
    shape = 1.0 if kind == "poisson" else gamma_shape
    return _gamma_instants(rate_per_s, shape, seed)


def _gamma_instants(rate_per_s: float, shape: float, seed: int) -> Iterator[float]:
    generator = np.random.default_rng([seed, _ARRIVALS_STREAM])
    now_s = 0.0
    while True:
        gaps_s = generator.gamma(shape, 1.0 / (rate_per_s * shape), _CHUNK)
        instants_s = now_s + np.cumsum(gaps_s)
        now_s = float(instants_s[-1])
        yield from instants_s.tolist()
