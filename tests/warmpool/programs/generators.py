"""Generators that an import has made: by the system's entropy, and by a seed."""

import random

import numpy
from entries import answer

UNSEEDED = {
    "generator": numpy.random.default_rng(),
    "another kind": numpy.random.Generator(numpy.random.Philox()),
    "legacy": numpy.random.RandomState(),
    "spawned": numpy.random.default_rng(numpy.random.SeedSequence().spawn(2)[1]),
}
SEEDED = {
    "generator": numpy.random.default_rng(7),
    "legacy": numpy.random.RandomState(7),
    "sequence": numpy.random.default_rng([1, 2, 3]),
    "python": random.Random(7),
}


def draw(payload: bytes, fds: dict[str, int]) -> None:
    answer(fds, [{name: float(one.random()) for name, one in made.items()} for made in (UNSEEDED, SEEDED)])


def preload(payload: bytes) -> None:
    """Nothing: the import has done it."""
