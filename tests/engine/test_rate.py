from __future__ import annotations

import math

import pytest

from faas.engine.rate import Rate


def test_a_rate_forgets() -> None:
    rate = Rate(memory_s=0.5)
    assert rate.at(5.0) == 0.0
    for step in range(1_000):
        rate.count(step * 0.01)
    assert rate.at(9.99) == pytest.approx(100.0, rel=0.02)
    assert rate.at(9.99 + 0.5) == pytest.approx(100.0 / math.e, rel=0.02)
    assert rate.surely_at(9.99) == pytest.approx(80.0, rel=0.05)


def test_a_rate_knows_since_when_it_is_low() -> None:
    rate = Rate(memory_s=0.5)
    for step in range(1_000):
        rate.count(step * 0.01)
    assert rate.below_since(150.0, 10.0) == pytest.approx(9.99)
    assert rate.below_since(50.0, 10.0) == math.inf
    assert rate.below_since(50.0, 20.0) == pytest.approx(9.99 + 0.5 * math.log(2.0), abs=0.02)
    assert rate.below_since(0.0, 20.0) == math.inf


def test_what_comes_together_counts_for_as_many() -> None:
    rate = Rate(memory_s=0.5)
    rate.count(1.0, 10)
    assert rate.at(1.0) == 20.0
