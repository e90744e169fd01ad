"""The platform for a trace that is replayed faster than it was recorded: idle times are learned in shorter bins.

FAAS_BENCH_SPEED=144 python -m benchmarks.hurried up TARGET ... takes what `faas up` does. What a histogram takes for a
minute is a 144th of one then. Nothing else is hurried: starts take what they take, the autoscaler ticks as ever.
"""

import os
from functools import partial
from typing import Any

from faas.cli.main import main
from faas.platform import upkeep
from faas.platform.habits import Habits
from faas.platform.keepalive import BURST_S, IdleTimes

SPEED = "FAAS_BENCH_SPEED"


def unseen(speed: float) -> IdleTimes:
    """Return what a histogram begins with whose minutes are so much shorter."""
    return IdleTimes(bin_s=IdleTimes.bin_s / speed, burst_s=BURST_S / speed)


if __name__ == "__main__":
    patched: Any = upkeep
    assert patched.Habits is Habits, "who makes the habits has moved"
    patched.Habits = partial(Habits, unseen=unseen(float(os.environ[SPEED])))
    main()
