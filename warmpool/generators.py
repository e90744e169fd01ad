"""Random generators that workers must not share: those that nobody gave a seed begin anew in each worker.

Python's, numpy's and torch's own are among them. Of others, a numpy generator tells by its entropy whether the system
seeded it; a `random.Random` does not, so a zygote notes those as they are made.
"""

import contextlib
import gc
import os
import random
import sys
import weakref
from collections.abc import Iterator
from typing import Any

_LONGEST_SEED_BITS = 64

_of_numpy: list[Any] = []
"""`BitGenerator`s that imports and preloads have made."""
_of_python: "weakref.WeakSet[random.Random]" = weakref.WeakSet()


@contextlib.contextmanager
def noting_unseeded() -> Iterator[None]:
    """Note each `random.Random` that is made while the block runs, and whether it is then given a seed or a state."""
    seed, setstate = random.Random.seed, random.Random.setstate

    def noted_seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, a, version)
        (_of_python.add if a is None else _of_python.discard)(self)

    def noted_setstate(self: random.Random, state: Any) -> None:
        setstate(self, state)
        _of_python.discard(self)

    random.Random.seed, random.Random.setstate = noted_seed, noted_setstate  # type: ignore[method-assign]
    try:
        yield
    finally:
        random.Random.seed, random.Random.setstate = seed, setstate  # type: ignore[method-assign]


def find() -> None:
    """Find numpy's generators, other than the global one, that were not given a seed: it takes 128 bits for it then.

    Looks through all objects, but for those of an earlier call, which are frozen by now.
    """
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None or not hasattr(numpy_random, "BitGenerator"):  # it may have failed to be imported
        return
    of_all = numpy_random.mtrand._rand._bit_generator
    for one in gc.get_objects():
        if issubclass(type(one), numpy_random.BitGenerator) and one is not of_all:  # a proxy's `__class__` may be code
            entropy = getattr(getattr(one, "seed_seq", None), "entropy", None)
            if isinstance(entropy, int) and entropy >> _LONGEST_SEED_BITS:
                _of_numpy.append(one)


def reseed() -> None:
    """Reseed the generators of Python, numpy and torch from the system's entropy; of others those it had seeded."""
    random.seed()
    for python in _of_python:
        python.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(memoryview(os.urandom(32)).cast("I").tolist())  # an eighth of what `seed()` takes
    for generator in _of_numpy:
        generator.state = type(generator)().state
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        torch.default_generator.seed()  # torch.seed() would reach for the accelerators as well
