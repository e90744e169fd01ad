"""The example inputs, answered once in a hot zygote, so that no instance that is forked from it has to.

What an answer leaves behind is then there for all instances, in memory that they share: so it must be memory alone.
A thread, a connection or a device that an answer leaves open cannot be shared by forking, and forbids it.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Self

from faas import local
from faas.engine.gradients import set_gradients
from faas.function import Function
from faas.handler import Handler


class Footprint(NamedTuple):
    """What this process has beyond memory: its threads, and what its descriptors are open on."""

    num_threads: int
    descriptors: dict[str, str]

    @classmethod
    def here(cls) -> Self:
        """Look at this process."""
        return cls(len(os.listdir("/proc/self/task")), dict(_open_descriptors()))


def is_offered(function: Function) -> bool:
    """Tell whether a function's examples can be answered ahead: plainly, on CPUs, nothing fresh by instance."""
    return (
        bool(function.spec.warmup)
        and all(each.signature.kind == "plain" for each in function.main.each)
        and function.spec.resources.num_gpus == 0
        and not (function.is_class and hasattr(function.user, "after_thaw"))
    )


def rehearse(handler: Handler) -> None:
    """Answer the function's example inputs, one at a time. Raises whatever the handler does."""
    function = handler.function
    set_gradients(function.spec.grad)
    try:
        for each in function.main.each:
            for example in function.spec.warmup or ():
                local.call_one(handler, each, each.signature.convert(example))
    finally:
        set_gradients(True)


def _open_descriptors() -> list[tuple[str, str]]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append((number, os.readlink(f"/proc/self/fd/{number}")))
        except FileNotFoundError:  # the one that the listing itself was read through
            continue
    return found
