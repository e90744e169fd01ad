"""A target's functions in this process, or this process begun again in an environment with what they require."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import NoReturn

from faas import environments, needs, settings, targets
from faas.cli import progress
from faas.errors import NotPrepared, TargetError
from faas.function import Function


def load(target: str) -> list[Function]:
    """Return the functions of a target; does not return where this interpreter lacks what they require.

    Then the environment is made, unless it is there, and the same command runs in it, as this same process.

    Raises:
        TargetError: the target cannot be loaded, or the environment cannot be made.
    """
    needed = needs.of_bundle(target)
    if not needed:
        try:
            found = targets.load(target)
        except TargetError as error:
            needed = needs.of_file(target, error)
        else:
            needed = needs.of_functions(found)
            if not needed:
                return found
    return begin_again(needed)


def begin_again(needed: tuple[str, ...]) -> NoReturn:
    """Have this process run the same command in an environment with what is needed, made unless it is there.

    Raises:
        NotPrepared: it cannot be made.
    """
    if environments.current() is not None:
        raise NotPrepared(f"an environment with {', '.join(needed)} still lacks some of it")
    with progress.steps() as step:
        python = asyncio.run(environments.have(settings.read().environments, needed, step))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(python, [python, "-P", "-m", "faas.cli.main", *sys.argv[1:]])
