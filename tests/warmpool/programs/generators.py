"""Generators that an import has made: by the system's entropy, and by a seed."""

import pickle
import random

import numpy
from entries import answer


class Own(random.Random):
    """As some make one of theirs."""


UNSEEDED = {
    "generator": numpy.random.default_rng(),
    "another kind": numpy.random.Generator(numpy.random.Philox()),
    "legacy": numpy.random.RandomState(),
    "spawned": numpy.random.default_rng(numpy.random.SeedSequence().spawn(2)[1]),
    "python": random.Random(),
    "a kind of python's": Own(),
    "python, in the end": random.Random(7),
}
UNSEEDED["python, in the end"].seed()
SEEDED = {
    "generator": numpy.random.default_rng(7),
    "legacy": numpy.random.RandomState(7),
    "sequence": numpy.random.default_rng([1, 2, 3]),
    "python": random.Random(7),
    "python, in the end": random.Random(),
    "python, set": random.Random(),
    "python, pickled": pickle.loads(pickle.dumps(random.Random(7))),
}
SEEDED["python, in the end"].seed(7)
SEEDED["python, set"].setstate(random.Random(7).getstate())


def draw(payload: bytes, fds: dict[str, int]) -> None:
    answer(fds, [{name: float(one.random()) for name, one in made.items()} for made in (UNSEEDED, SEEDED)])


def preload(payload: bytes) -> None:
    """Nothing: the import has done it."""
