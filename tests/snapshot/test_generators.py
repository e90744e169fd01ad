import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapshot


def thawed_thrice(state: Any, folder: Path) -> list[Any]:
    snapshot.freeze(state, folder)
    snapshot.verify(folder)
    return [snapshot.thaw(folder).state for _ in range(3)]


@pytest.mark.parametrize(
    "generator",
    [
        np.random.default_rng(),
        np.random.RandomState(),
        np.random.Generator(np.random.Philox()),
        np.random.default_rng(np.random.SeedSequence().spawn(1)[0]),
    ],
)
def test_one_without_a_seed_begins_anew_in_each_process(generator: Any, tmp_path: Path) -> None:
    generator.random()
    thawed = [*thawed_thrice(generator, tmp_path / "s"), generator]
    assert len({float(one.random()) for one in thawed}) == 4
    again = thawed_thrice(thawed[0], tmp_path / "again")
    assert len({float(one.random()) for one in again}) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng(7),
        lambda: np.random.RandomState(7),
        lambda: np.random.default_rng([2**40, 2**90]),
        lambda: np.random.Generator(np.random.SFC64(2**60)),
    ],
)
def test_one_with_a_seed_goes_on_where_it_was(make: Any, tmp_path: Path) -> None:
    frozen, other = make(), make()
    frozen.random(3)
    thawed = thawed_thrice(frozen, tmp_path / "s")
    assert [one.random(2).tolist() for one in thawed] == [other.random(5)[3:].tolist()] * 3


def test_generators_that_share_their_source_share_it_again(tmp_path: Path) -> None:
    source = np.random.PCG64()
    one, other = thawed_thrice([np.random.Generator(source), np.random.Generator(source)], tmp_path / "s")[0]
    assert one.bit_generator is other.bit_generator
    assert one.random() != other.random()


def test_the_generators_of_a_process_are_those_of_the_one_that_thaws(tmp_path: Path) -> None:
    state = [random.random, random.choice, np.random.rand, np.random.mtrand._rand, torch.default_generator]
    draw, choose, rand, of_numpy, of_torch = thawed_thrice(state, tmp_path / "s")[0]
    assert (of_numpy, of_torch) == (np.random.mtrand._rand, torch.default_generator)
    for drawing in (draw, lambda: choose(range(1 << 60)), rand):
        random.seed(7)
        np.random.seed(7)
        first = drawing()
        random.seed(7)
        np.random.seed(7)
        assert drawing() == first


def test_generators_of_ones_own_stay_ones_own(tmp_path: Path) -> None:
    own, of_torch = random.Random(7), torch.Generator().manual_seed(7)
    for thawed, again in thawed_thrice([own, of_torch], tmp_path / "s"):
        assert thawed.random() == random.Random(7).random()
        assert again is not torch.default_generator
        assert torch.rand(1, generator=again) == torch.rand(1, generator=torch.Generator().manual_seed(7))
