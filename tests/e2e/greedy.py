"""Functions that take more than they should, for the end-to-end tests of limits."""

import os
import time
from typing import Any

from faas import Calls, Resources, Scaling, inference_function

ONE = Scaling(max_instances=1, scaledown_window_s=30)
_held: list[bytearray] = []


@inference_function(resources=Resources(memory="200Mi"), scaling=ONE)
def hoards(mib: int) -> int:
    _held.append(bytearray(b"x") * (mib << 20))
    time.sleep(2.0 if mib > 100 else 0.0)
    return os.getpid()


@inference_function(resources=Resources(memory="200Mi"), scaling=ONE)
def leaks(mib: int) -> int:
    _held.append(bytearray(b"x") * (mib << 20))
    return os.getpid()


@inference_function(calls=Calls(timeout_s=0.5, grace_period_s=2), scaling=ONE)
def loops(for_ever: bool) -> int:
    while for_ever:
        pass
    return os.getpid()


@inference_function(resources=Resources(cpu=0.1), scaling=ONE)
def spins(seconds: float) -> list[int]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    return sorted(os.sched_getaffinity(0))


@inference_function(calls=Calls(max_payload="1Ki"), scaling=ONE)
async def small(body: Any) -> int:
    return len(str(body))


@inference_function(calls=Calls(max_queue=0), scaling=ONE)
def narrow(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


@inference_function(snapshot="off", scaling=ONE)
class Crashes:
    def setup(self) -> None:
        if "FAAS_PLATFORM_SOCKET" in os.environ:
            os._exit(7)

    def predict(self, x: int) -> int:
        return x


@inference_function(scaling=Scaling(min_instances=1, max_instances=1))
async def calm(x: int) -> int:
    return x
