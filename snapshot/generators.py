"""Numpy's random generators at rest: one that nobody gave a seed is no state, and begins anew wherever it is thawed.

Otherwise all instances of a snapshot would draw the same numbers, which whoever left the seed out did not ask for.
"""

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.random import BitGenerator, RandomState

_LONGEST_SEED_BITS = 64


def reduce_bit_generator(generator: "BitGenerator") -> Any:
    """As it is where it has a seed of its own, else only what kind it is."""
    return (
        (type(generator), ()) if _is_seeded_by_system(generator) else generator.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    )


def reduce_random_state(state: "RandomState") -> Any:
    """The same for the older interface, which repeats its generator's state."""
    make, arguments, *rest = state.__reduce__()
    return (make, arguments) if _is_seeded_by_system(arguments[0]) else (make, arguments, *rest)


def _is_seeded_by_system(generator: Any) -> bool:
    """Whether numpy seeded it, for which it takes 128 bits of the system's entropy; a state set later does not show."""
    entropy = getattr(getattr(generator, "seed_seq", None), "entropy", None)
    return isinstance(entropy, int) and bool(entropy >> _LONGEST_SEED_BITS)
