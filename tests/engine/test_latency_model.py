from __future__ import annotations

import random

import pytest

from faas.engine.latency_model import LatencyModel


def learnt(*observations: tuple[int, float]) -> LatencyModel:
    model = LatencyModel()
    for size, seconds in observations:
        model.observe(size, seconds)
    return model


def test_it_knows_nothing_at_first() -> None:
    model = LatencyModel()
    assert (model.seconds(1), model.seconds(32), model.num_observed) == (0.0, 0.0, 0)


@pytest.mark.parametrize("size", [1, 8])
def test_of_one_size_half_is_taken_as_fixed(size: int) -> None:
    model = learnt(*[(size, 0.010)] * 5)
    assert model.seconds(size) == pytest.approx(0.010)
    assert model.beta_s == pytest.approx(0.005)


@pytest.mark.parametrize(("alpha", "beta"), [(0.002, 0.005), (0.0, 0.010), (0.007, 0.0), (0.0001, 0.2)])
def test_it_finds_the_line(alpha: float, beta: float) -> None:
    sizes = [1, 2, 32, 8, 16, 4] * 8
    model = learnt(*[(size, alpha * size + beta) for size in sizes])
    for size in (1, 10, 32):
        assert model.seconds(size) == pytest.approx(alpha * size + beta, rel=0.1)


def test_neither_part_is_ever_negative() -> None:
    falling = learnt((1, 0.03), (8, 0.02), (16, 0.015))
    assert falling.alpha_s == 0.0
    assert falling.beta_s > 0.0
    convex = learnt((4, 0.01), (8, 0.03), (16, 0.09), (32, 0.2))
    assert convex.beta_s == 0.0
    assert convex.alpha_s > 0.0
    rng = random.Random(0)
    model = LatencyModel()
    for _ in range(500):
        model.observe(rng.randint(1, 64), rng.expovariate(100))
        assert model.alpha_s >= 0.0
        assert model.beta_s >= 0.0


def test_a_slow_first_call_is_soon_forgotten() -> None:
    model = learnt((1, 2.0), *[(1, 0.005)] * 6)
    assert model.seconds(1) < 0.010


def test_one_outlier_does_not_stay() -> None:
    model = learnt(*[(4, 0.010)] * 20, (4, 1.0), *[(4, 0.010)] * 4)
    assert model.seconds(4) < 0.020


@pytest.mark.parametrize("factor", [2.0, 10.0, 0.1])
def test_drift_is_followed_within_a_few_batches(factor: float) -> None:
    model = learnt(*[(size, 0.001 * size + 0.01) for size in (1, 8, 16, 32) * 10])
    for size in (1, 8, 16, 32) * 5:
        model.observe(size, factor * (0.001 * size + 0.01))
    assert model.seconds(16) == pytest.approx(factor * 0.026, rel=0.35)


def test_batches_that_take_no_time_are_no_trouble() -> None:
    model = learnt((1, 0.0), (8, 0.0), (8, 0.01), (8, 0.0))
    assert 0.0 <= model.seconds(8) <= 0.01
