"""What instances are forked from, and what they then serve."""

from __future__ import annotations

import functools
import sys

import msgspec

from faas import device
from faas.instance_messages import Revision
from faas.preparation import Preparation
from warmpool.environment import Environment, Preload


def environment(preparation: Preparation) -> Environment:
    """Return the zygote that instances are forked from.

    It is a hot one, with the imports, the code and the state; or, for a function that uses a GPU, one with the imports,
    whose parked workers create their device context ahead: state on a device cannot be forked. Functions with the same
    imports share those.
    """
    description = preparation.description
    made_for = preparation.imports, preparation.interpreter or sys.executable
    if description.num_gpus:
        variables = {name: value for name, value in description.env.items() if name.startswith(device.VARIABLES)}
        return _known(*made_for, env=tuple(sorted(variables.items())), park=Preload(entry="faas.parked:begin_on_gpu"))
    preload = Preload(entry="faas.revision:preload", payload=msgspec.json.encode(revision_of(preparation)))
    return _known(*made_for, preload=preload, park=Preload(entry="faas.parked:begin"))


@functools.lru_cache(maxsize=1024)
def _known(
    modules: tuple[str, ...],
    python: str,
    *,
    env: tuple[tuple[str, str], ...] = (),
    preload: Preload | None = None,
    park: Preload | None = None,
) -> Environment:
    """Made once, as each module's name is looked at, and asked for by every wake-up."""
    return Environment(modules, python, env, preload=preload, park=park)


def revision_of(preparation: Preparation) -> Revision:
    """Return what instances made from this preparation serve."""
    return Revision(
        id=preparation.revision,
        target=preparation.runs,
        function=preparation.name,
        snapshot=preparation.snapshot,
        digest=preparation.digest,
        env=preparation.description.env,
        later=preparation.later,
        rehearse=preparation.rehearsable,
        versions=preparation.versions,
    )
