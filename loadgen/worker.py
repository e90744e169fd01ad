"""The main of one load process: `python -m loadgen.worker RANK`; see `loadgen.processes` for what passes."""

import asyncio
import gc
import resource
import sys

import uvloop

from loadgen.loops import drive
from loadgen.plan import decode
from loadgen.processes import READY

_LONGEST_LINE_BYTES = 1 << 30  # the orders hold every body of the workload


async def main(rank: int) -> None:
    """Hear the orders, wait for the word, send, and hand in the record."""
    _allow_connections()
    orders = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    plan = decode(await orders.readline())
    gc.freeze()  # what is imported by now is not walked again while requests are timed
    _write(READY)
    word = await orders.readline()
    if not word:  # the other side is gone
        return
    stop = asyncio.Event()
    hearing = asyncio.create_task(orders.read())  # ends when the other side closes, or is gone
    hearing.add_done_callback(lambda _: stop.set())
    _write((await drive(plan, rank, float(word), stop)).encode())


def _allow_connections() -> None:
    # One descriptor for each request in flight: as many as the system lets this process have.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _write(message: bytes) -> None:
    sys.stdout.buffer.write(message)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
