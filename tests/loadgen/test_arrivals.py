from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from loadgen.arrivals import Arrivals, planned_instants


def gaps(kind: Arrivals, rate_per_s: float, num: int, **settings: Any) -> np.ndarray:
    instants = islice(planned_instants(kind, rate_per_s, **settings), num)
    return np.diff(np.fromiter(instants, float), prepend=0.0)


def test_constant_starts_at_zero_and_does_not_drift() -> None:
    instants = list(islice(planned_instants("constant", 3.0), 30_001))
    assert instants[:3] == [0.0, 1 / 3, 2 / 3]
    assert instants[-1] == 10_000.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_poisson_has_the_mean_the_spread_and_the_tail_of_exponential_gaps(seed: int) -> None:
    drawn = gaps("poisson", 50.0, 40_000, seed=seed)
    assert drawn.mean() == pytest.approx(1 / 50, rel=0.03)
    assert drawn.std() / drawn.mean() == pytest.approx(1.0, abs=0.05)
    assert (drawn > 2 / 50).mean() == pytest.approx(np.exp(-2), abs=0.01)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", [0.25, 4.0])
def test_gamma_keeps_the_rate_and_has_the_spread_of_its_shape(shape: float, seed: int) -> None:
    drawn = gaps("gamma", 50.0, 40_000, seed=seed, gamma_shape=shape)
    assert drawn.mean() == pytest.approx(1 / 50, rel=0.05)
    assert drawn.std() / drawn.mean() == pytest.approx(shape**-0.5, rel=0.1)


@pytest.mark.parametrize("kind", ["poisson", "gamma"])
def test_a_seed_repeats_and_another_differs(kind: Arrivals) -> None:
    first = gaps(kind, 10.0, 3000, seed=7)
    assert (first == gaps(kind, 10.0, 3000, seed=7)).all()
    assert (first != gaps(kind, 10.0, 3000, seed=8)).any()


@pytest.mark.parametrize("kind", ["poisson", "constant", "gamma"])
def test_instants_never_go_back(kind: Arrivals) -> None:
    instants = list(islice(planned_instants(kind, 1e4), 5000))
    assert instants[0] >= 0
    assert all(earlier <= later for earlier, later in pairwise(instants))
