"""An instance in a process of its own: `program.py PORT_FILE GRACE_S LAME_DUCK_S [KEEP_ALIVE_S]`.

Its teardown writes `teardown` beside the file that receives the port.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

from faas import endpoint, inference_function
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server.serve import Server

PORT_FILE = Path(sys.argv[1])
FORK = multiprocessing.get_context("fork")


@inference_function(name="program")
class Program:
    @endpoint("/")
    async def wait(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @endpoint("/block")
    def block(self) -> None:
        threading.Event().wait()

    @endpoint("/child")
    def child(self) -> int | None:
        child = FORK.Process(target=threading.Event().wait)
        child.start()
        child.terminate()
        child.join(10)
        return child.exitcode

    @endpoint("/pool")
    def pool(self) -> list[int]:
        with FORK.Pool(2) as pool:
            return pool.map(abs, [-1, -2])

    @endpoint("/endless")
    async def endless(self) -> AsyncIterator[int]:
        number = 0
        while True:
            yield number
            number += 1
            await asyncio.sleep(0.05)

    def teardown(self) -> None:
        PORT_FILE.with_name("teardown").write_text("done")


async def main() -> int:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    handler = Handler(Program)
    runtime = Runtime(Program, handler, version="1")

    def ready() -> None:
        partial = PORT_FILE.with_suffix(".partial")
        partial.write_text(str(sock.getsockname()[1]))
        partial.rename(PORT_FILE)
        print("ready", flush=True)

    grace_s, lame_duck_s = float(sys.argv[2]), float(sys.argv[3])
    return await Server(runtime).serve(
        [sock], load=handler.setup, grace_s=grace_s, lame_duck_s=lame_duck_s, on_ready=ready
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(main())
    os._exit(code)
