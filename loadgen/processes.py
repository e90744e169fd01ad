"""Several load processes that share one run: started together, stopped together, merged at the end.

Each runs `loadgen.worker`. What passes between the two sides:

    to the worker      the plan, one line; the instant to start at, one line, once all are ready; end of file to stop
    from the worker    READY, one line; its record (JSON), then end of file
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic

import msgspec

from loadgen.errors import WorkerError
from loadgen.loops import LEAD_S
from loadgen.plan import Plan, encode
from loadgen.recorder import Recorder

READY = b"ready\n"


async def drive_together(plan: Plan, stop: asyncio.Event) -> Recorder:
    """Run `plan` in `plan.num_processes` processes and return what they recorded, merged.

    Raises WorkerError when one of them ends without a record; none outlives the call.
    """
    async with AsyncExitStack() as owned:
        workers = [await owned.enter_async_context(_worker(plan, rank)) for rank in range(plan.num_processes)]
        await asyncio.gather(*(_await_ready(worker) for worker in workers))
        start_at = f"{monotonic() + LEAD_S!r}\n".encode()
        for worker in workers:
            _stdin(worker).write(start_at)
        return await _collect(workers, stop)


@asynccontextmanager
async def _worker(plan: Plan, rank: int) -> AsyncIterator[Process]:
    # -P: no module of the working directory stands in for one of ours or of the library's.
    # In a session of its own: an interrupt from the terminal comes to this process alone, which then stops its workers.
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "loadgen.worker", str(rank)), stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    try:
        _stdin(worker).write(encode(plan))
        yield worker
    except BaseException:
        if worker.returncode is None:
            # Not worker.kill(): that may reap the process, and its status is then lost to the event loop.
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        raise
    finally:
        await worker.wait()


async def _await_ready(worker: Process) -> None:
    assert worker.stdout is not None
    if await worker.stdout.readline() != READY:
        raise WorkerError(f"a load process ended with status {await worker.wait()} before it began; see its messages")


async def _collect(workers: Sequence[Process], stop: asyncio.Event) -> Recorder:
    """Merge the records of all; when `stop` is set first, have all workers stop, and then merge."""

    async def pass_on() -> None:
        await stop.wait()
        for worker in workers:
            _stdin(worker).close()

    passing_on = asyncio.create_task(pass_on())
    try:
        merged, *others = await asyncio.gather(*(_read_record(worker) for worker in workers))
    finally:
        passing_on.cancel()
    for other in others:
        merged.merge(other)
    return merged


async def _read_record(worker: Process) -> Recorder:
    assert worker.stdout is not None
    record = await worker.stdout.read()
    try:
        return Recorder.decode(record)
    except msgspec.DecodeError:
        status = await worker.wait()
        raise WorkerError(f"a load process ended with status {status} and no record; see its messages") from None


def _stdin(worker: Process) -> asyncio.StreamWriter:
    assert worker.stdin is not None
    return worker.stdin
