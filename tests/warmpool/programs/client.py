"""A client that has a worker of every kind, prints the processes, and is then killed."""

import asyncio
import json
import os
import sys
from pathlib import Path

from warmpool import launch
from warmpool.environment import Environment
from warmpool.pool import WarmPool
from warmpool.protocol import Request


async def main() -> None:
    environment = Environment(modules=("entries",), sys_path=(str(Path(__file__).parent),))
    reader, writer = os.pipe()
    hang, wait = (Request(entry=f"entries:{entry}", fds={"out": writer}) for entry in ("hang", "wait"))
    pool = WarmPool(buffer=1)
    zygote = await pool.warm(environment)
    forked = await zygote.fork(hang)
    workers = [forked, await pool.take(environment, wait), await launch.exec_worker(environment, hang, "the test asks")]
    for _ in workers:
        assert os.read(reader, 2) == b"up"
    tree = Request(entry="entries:start_children", fds={"out": writer})
    workers.append(await pool.take(environment, tree))
    children = json.loads(os.read(reader, 1000))
    await pool.warm(environment)
    assert pool.num_parked(environment) == 1
    json.dump([zygote.pid, *(worker.pid for worker in workers), *children], sys.stdout)
    print(flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
