"""What a parked worker does while nobody needs it, so that the instance which it becomes need not."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop

from faas import device, revision
from faas.function import inference_function
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server.serve import Server

_runner: asyncio.Runner | None = None


def begin(payload: bytes) -> None:
    """Make the event loop of the instance, and go through what the zygote has not made for it.

    Where there is a preloaded revision that is nothing more. Else a server is made of a function of no use: what every
    instance writes to in memory is this process's own from then on, and what it runs of each library has been mapped.
    """
    global _runner
    _runner = _new_runner()
    _runner.run(asyncio.sleep(0))
    if not revision.is_preloaded():
        revision.log_to_stderr()
        function = inference_function(_Nothing)
        Server(Runtime(function, Handler(function), version=""))


def begin_on_gpu(payload: bytes) -> None:
    """Do the same, and create the context of the GPU."""
    device.create_context()
    begin(payload)


def runner() -> asyncio.Runner:
    """Return what runs the event loop of this process: made by now where it was parked."""
    return _runner or _new_runner()


def _new_runner() -> asyncio.Runner:
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


class _Nothing:
    def setup(self) -> None:
        pass

    def predict(self, values: list[Any]) -> list[Any]:
        return values
