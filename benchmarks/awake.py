"""Cores that do not halt: on each a process that spins, and gives way at once to whoever has work.

A core of a virtual machine that has nothing to do is given back to the host, and to wake it takes tens of microseconds,
which are nobody's whose latency is measured. The kernel's `idle=poll` does the same; this needs no other kernel command
line. A process of the policy SCHED_IDLE is preempted by any other, and a core that runs nothing else counts as idle.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from benchmarks.processes import script

_ROUNDS = 1_000_000


@asynccontextmanager
async def cores_awake() -> AsyncIterator[None]:
    """Keep all cores that this process may use from halting for as long as the context lasts."""
    async with AsyncExitStack() as owned:
        for core in os.sched_getaffinity(0):
            spinning = await owned.enter_async_context(script("-m", "benchmarks.awake", str(core)))
            assert spinning.stdout is not None
            await spinning.stdout.readline()
        yield


def _spin(core: int) -> None:
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("spinning", flush=True)
    parent = os.getppid()
    while os.getppid() == parent:  # however that ends
        for _ in range(_ROUNDS):
            pass


if __name__ == "__main__":
    _spin(int(sys.argv[1]))
