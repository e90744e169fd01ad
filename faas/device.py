"""The device context of an instance, created ahead of need: it takes a second, and belongs to one process for good."""

from __future__ import annotations

import sys

VARIABLES = "CUDA_"
"""What the names of variables begin with that a context is created by, and that cannot change once there is one."""


def create_context() -> None:
    """Create the context of the GPU that torch would use first, and have its libraries loaded there.

    Where torch is not loaded or finds no GPU there is nothing to do: the function that comes may need another one, or
    say itself what it lacks.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    one = torch.ones(1, 1, device="cuda")
    (one @ one).sum()  # the first product loads the kernels and makes the handles that all later ones use
    torch.cuda.synchronize()
