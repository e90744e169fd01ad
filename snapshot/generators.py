"""Random generators at rest: what belongs to no one state begins anew wherever it is thawed.

One of numpy's that nobody gave a seed is seeded again. The one that a library has for the whole process, which bound
methods such as `random.choice` hold, is that of the process that thaws. Otherwise all instances of a snapshot would
draw the same numbers, which whoever left the seed out did not ask for.
"""

import importlib
import pickle
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.random import BitGenerator, RandomState

_LONGEST_SEED_BITS = 64
_OF_PROCESS = (("random", "_inst"), ("numpy.random.mtrand", "_rand"), ("torch", "default_generator"))


def reduce_generator(generator: Any) -> Any:
    """Where to find it, if it is the one of the process; else as it is."""
    return _by_place(generator) or generator.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def of_process(module: str, name: str) -> Any:
    """What skeletons name for a generator that each process has one of."""
    return getattr(importlib.import_module(module), name)


def reduce_bit_generator(generator: "BitGenerator") -> Any:
    """As it is where it has a seed of its own, else only what kind it is."""
    return (
        (type(generator), ()) if _is_seeded_by_system(generator) else generator.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    )


def reduce_random_state(state: "RandomState") -> Any:
    """The same for the older interface, which repeats its generator's state, and has one of the process."""
    if (place := _by_place(state)) is not None:
        return place
    make, arguments, *rest = state.__reduce__()
    return (make, arguments) if _is_seeded_by_system(arguments[0]) else (make, arguments, *rest)


def _by_place(generator: Any) -> Any:
    for module, name in _OF_PROCESS:
        if getattr(sys.modules.get(module), name, None) is generator:
            return of_process, (module, name)
    return None


def _is_seeded_by_system(generator: Any) -> bool:
    """Whether numpy seeded it, for which it takes 128 bits of the system's entropy; a state set later does not show."""
    entropy = getattr(getattr(generator, "seed_seq", None), "entropy", None)
    return isinstance(entropy, int) and bool(entropy >> _LONGEST_SEED_BITS)
