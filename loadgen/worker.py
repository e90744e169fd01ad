"""The main of one load process: `python -m loadgen.worker RANK`; see `loadgen.processes` for what passes."""

import asyncio
import gc
import sys

import uvloop

from loadgen import descriptors
from loadgen.loops import drive
from loadgen.plan import decode
from loadgen.processes import READY

_LONGEST_LINE_BYTES = 1 << 30  # the plan holds every body of the workload


async def main(rank: int) -> None:
    """Read the plan and, once all are ready, the start; send the requests, and write the record."""
    descriptors.allow_most()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    plan = decode(await reader.readline())
    gc.freeze()  # what is imported by now is not walked again while requests are timed
    _write(READY)
    start_at = await reader.readline()
    if not start_at:  # the other side is gone
        return
    stop = asyncio.Event()
    closing = asyncio.create_task(reader.read())  # ends when the other side closes, or is gone
    closing.add_done_callback(lambda _: stop.set())
    _write((await drive(plan, rank, float(start_at), stop)).encode())


def _write(message: bytes) -> None:
    sys.stdout.buffer.write(message)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
