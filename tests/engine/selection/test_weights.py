from __future__ import annotations

import math
import random

import pytest

from faas.engine.selection import weights
from faas.engine.selection.contexts import Contexts, added


def test_shares_add_up_and_follow_the_logarithms():
    held = weights.shares({"a": 0.0, "b": math.log(3.0)})
    assert held == pytest.approx({"a": 0.25, "b": 0.75})
    assert weights.shares({}) == {}


def test_what_is_far_apart_neither_overflows_nor_vanishes():
    held = weights.shares({"a": 5_000.0, "b": -5_000.0})
    assert held["a"] == pytest.approx(1.0)
    assert 0.0 < held["b"] < 1e-300
    assert all(map(math.isfinite, weights.fitted({"a": 0.0, "b": -5_000.0}, ["a", "b", "c"]).values()))


def test_no_share_falls_below_the_least_one_whatever_happens():
    rng, least = random.Random(3), 0.05 / 5
    logs = weights.even("abcde")
    for _ in range(2_000):
        logs = weights.changed(logs, {rng.choice("abcde"): -rng.random() * 100}, least)
        held = weights.shares(logs)
        assert sum(held.values()) == pytest.approx(1.0)
        assert min(held.values()) >= least * (1 - 1e-9)


def test_the_least_share_may_be_an_even_one():
    logs = weights.changed(weights.even("ab"), {"a": -3.0}, 0.5)
    assert weights.shares(logs) == pytest.approx({"a": 0.5, "b": 0.5})


def test_a_new_variant_gets_the_mean_weight():
    logs = {"a": math.log(0.75), "b": math.log(0.25)}
    assert weights.shares(weights.fitted(logs, "abc")) == pytest.approx({"a": 0.5, "b": 1 / 6, "c": 1 / 3})


def test_one_that_is_gone_leaves_the_others_as_they_were_to_each_other():
    logs = {"a": math.log(0.6), "b": math.log(0.3), "c": math.log(0.1)}
    assert weights.shares(weights.fitted(logs, "ab")) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert weights.shares(weights.fitted(logs, "xy")) == pytest.approx({"x": 0.5, "y": 0.5})
    assert weights.fitted(logs, "") == {}


def test_contexts_learn_apart():
    contexts = Contexts("ab", 0.01)
    contexts.add({"ann": {"a": -1.0}})
    assert weights.shares(contexts.logs("ann"))["a"] < 0.3
    assert weights.shares(contexts.logs("bob")) == pytest.approx({"a": 0.5, "b": 0.5})


def test_the_contexts_that_learned_last_are_kept():
    contexts = Contexts("ab", 0.01, most=2)
    for context in ("ann", "bob", "ann", "cleo"):
        contexts.add({context: {"a": -1.0}})
    assert list(contexts.learned()) == ["ann", "cleo"]


def test_what_two_instances_learn_adds_up_to_what_one_would_have():
    changes = [{"": {"a": -0.2}}, {"ann": {"b": -0.3}}, {"": {"a": -0.1, "b": -0.4}}, {"bob": {"a": -1.0}}]
    together, apart = Contexts("ab", 0.001), Contexts("ab", 0.001)
    for change in changes:
        together.add(change)
    apart.add(added(changes[0], changes[1]))
    apart.add(added(changes[2], changes[3]))
    assert apart.learned().keys() == together.learned().keys()
    for context, logs in together.learned().items():
        assert apart.learned()[context] == pytest.approx(logs)
    assert added({"": {"a": 1.0}}, {"": {"a": 2.0, "b": 3.0}}) == {"": {"a": 3.0, "b": 3.0}}
