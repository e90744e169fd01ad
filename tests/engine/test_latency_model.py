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


def linear(size: int) -> float:
    return 0.001 * size + 0.005


def running(model: LatencyModel, sizes: list[int], factor: float = 1.0) -> LatencyModel:
    for size in sizes:
        model.observe(size, factor * linear(size))
    return model


def test_it_is_confident_after_three_batches_and_knows_the_largest() -> None:
    model = LatencyModel()
    confident = []
    for size in (1, 4, 2, 1):
        confident.append(model.is_confident)
        running(model, [size])
    assert confident == [False, False, False, True]
    assert model.largest_run == 4


def test_it_is_not_confident_of_a_slow_first_run_that_the_next_ones_belie() -> None:
    model = LatencyModel()
    confident = []
    for seconds in (2.0, 0.005, 0.005, 0.005):
        model.observe(1, seconds)
        confident.append(model.is_confident)
    assert confident == [False, False, False, True]
    assert model.at_most(1) == pytest.approx(0.005)


def test_of_a_size_that_ran_often_it_knows_what_it_hardly_ever_exceeds() -> None:
    model = LatencyModel()
    rng = random.Random(3)
    took = [0.010 + 0.004 * rng.random() for _ in range(50)]
    for seconds in took:
        model.observe(8, seconds)
    assert model.at_most(8) == pytest.approx(sorted(took)[-2])
    assert model.seconds(8) == pytest.approx(0.012, rel=0.1)


def test_one_run_that_was_held_up_is_not_what_a_size_takes() -> None:
    model = running(LatencyModel(), [8] * 20)
    model.observe(8, 1.0)
    running(model, [8] * 3)
    assert model.at_most(8) == pytest.approx(linear(8))
    assert model.seconds(8) == pytest.approx(linear(8))
    for _ in range(3):  # that it happens again and again is
        model.observe(8, 0.1)
        running(model, [8] * 3)
    assert model.at_most(8) >= 0.1


def test_sizes_that_never_ran_follow_the_line_and_their_neighbours() -> None:
    model = running(LatencyModel(), [1, 4, 16] * 10)
    assert model.at_most(8) == pytest.approx(linear(8), rel=0.1)
    assert model.at_most(64) == pytest.approx(linear(64), rel=0.1)
    stairs = LatencyModel()
    for size in [4, 8] * 10:
        stairs.observe(size, 0.010 if size == 4 else 0.100)
    assert 0.010 <= stairs.at_most(5) <= stairs.at_most(6) <= 0.100
    assert stairs.at_most(9) >= 0.100


def test_a_larger_size_never_takes_less() -> None:
    rng = random.Random(1)
    model = LatencyModel()
    for _ in range(400):
        size = rng.choice([1, 2, 3, 5, 8, 13, 40, 100])
        model.observe(size, linear(size) * (1 + rng.random()))
        bounds = [model.at_most(size) for size in range(1, 200)]
        assert bounds == sorted(bounds)


def test_sizes_near_each_other_share_what_is_known_once_they_are_large() -> None:
    model = running(LatencyModel(), [1, 1, 1, 1000, 1001, 1002])
    assert linear(1001) <= model.at_most(999) <= 1.07 * linear(1001), "a sixteenth more at most"
    for size in range(1, 5000):
        running(model, [size])
    assert len(model.profile()) < 150


def test_what_is_padded_is_looked_up_as_it_runs() -> None:
    model = LatencyModel(lambda size: 8 if size <= 8 else 16)
    for _ in range(5):
        model.observe(8, 0.030)
        model.observe(16, 0.050)
    assert [model.at_most(size) for size in (1, 5, 8, 9, 16)] == pytest.approx([0.03, 0.03, 0.03, 0.05, 0.05])
    assert model.largest_within(0.040, 16) == 8


def test_the_largest_size_within_a_time_is_found_anew_when_something_was_learnt() -> None:
    model = running(LatencyModel(), [1, 8, 32] * 5)
    assert model.largest_within(0.025, 64) == pytest.approx(20, abs=1)
    assert model.largest_within(0.001, 64) == 1
    running(model, [1, 8, 32] * 5, factor=2.0)
    assert model.largest_within(0.025, 64) == pytest.approx(7, abs=1)


@pytest.mark.parametrize("factor", [2.0, 5.0, 0.5, 0.1])
def test_a2_a_change_of_speed_is_known_of_all_sizes_after_three_batches(factor: float) -> None:
    model = running(LatencyModel(), [1, 8, 16, 32] * 10)
    running(model, [16, 16, 8], factor)
    for size in (1, 8, 12, 16, 32):
        assert model.at_most(size) == pytest.approx(factor * linear(size), rel=0.1)
        assert model.seconds(size) == pytest.approx(factor * linear(size), rel=0.1)
    running(model, [8, 16, 8])
    for size in (1, 8, 12, 16, 32):
        assert model.at_most(size) == pytest.approx(linear(size), rel=0.1)


def test_times_that_vary_are_no_change_of_speed() -> None:
    rng = random.Random(2)
    model = LatencyModel()
    seen = []
    for _ in range(300):
        model.observe(8, rng.choice([0.010, 0.030]))
        seen.append(model.at_most(8))
    assert set(seen[20:]) == {0.030}


def test_its_profile_makes_another_model_know_as_much() -> None:
    model = running(LatencyModel(), [1, 8, 16, 32] * 10, factor=3.0)
    other = LatencyModel(profile=model.profile())
    assert other.is_confident
    assert other.largest_run == 32
    for size in (1, 8, 12, 16, 32, 40):
        assert other.at_most(size) == pytest.approx(model.at_most(size), rel=0.1)
    assert [size for size, _, _ in other.profile()] == [1, 8, 16, 32]


def test_what_it_sees_itself_soon_counts_for_more_than_a_profile() -> None:
    model = LatencyModel(profile=[(8, 0.010, 0.011), (16, 0.020, 0.021)])
    for _ in range(3):
        model.observe(8, 0.012)
    assert model.at_most(8) == pytest.approx(0.012)
    assert model.at_most(16) == pytest.approx(0.021)
    running(model, [8, 16, 8], factor=4.0)
    assert model.at_most(16) == pytest.approx(4.0 * linear(16), rel=0.2)


def test_sizes_that_hardly_ran_are_not_part_of_a_profile() -> None:
    model = running(LatencyModel(), [4, 4, 4, 9])
    assert [size for size, _, _ in model.profile()] == [4]
