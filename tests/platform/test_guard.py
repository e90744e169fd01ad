"""The guard over real processes."""

import asyncio
import contextlib
import os
import resource
import sys
import textwrap
from pathlib import Path

import pytest

from faas.clock import monotonic
from faas.platform.guard import OOM_SCORE, Guard, raise_descriptors
from faas.platform.limits import Life

MIB = 2**20


class Instance:
    """What a guard tells of one; it has been ready for a long time unless told otherwise."""

    def __init__(self, *, is_ready=True):
        self.is_ready = is_ready
        self.ended = []
        self.renewed = []
        self.told = asyncio.Event()

    def life(self, now):
        return Life(start_s=0.1, served_s=1000.0) if self.is_ready else None

    def end(self, why):
        self.ended.append(why)
        self.told.set()

    def renew(self, why):
        self.renewed.append(why)
        self.told.set()


@contextlib.asynccontextmanager
async def child(code):
    """Run Python that grows by as many MiB as each line says, and answers with one."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(code), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


GROWS = """
    import sys
    held = []
    for line in sys.stdin:
        held.append(bytearray(b"x") * (int(line) << 20))
        print(flush=True)
"""
SPINS = """
    import threading
    def spin():
        while True:
            pass
    threading.Thread(target=spin, daemon=True).start()
    print(flush=True)
    input()
"""


def oom_score(pid):
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def grow(process, mib):
    process.stdin.write(f"{mib}\n".encode())
    await process.stdout.readline()


async def test_one_over_its_memory_is_ended_whether_ready_or_not():
    for is_ready in (True, False):
        instance = Instance(is_ready=is_ready)
        async with child(GROWS) as process:
            guard = Guard(look_every_s=0.01)
            with guard.guarding(process.pid, instance, memory_bytes=64 * MIB, cpu=64.0):
                await grow(process, 80)
                while not instance.ended:  # a look may have found it on its way there
                    await instance.told.wait()
                    instance.told.clear()
        assert "allows 64 MiB" in instance.ended[0]


async def test_one_that_has_grown_to_its_mark_is_renewed_once_and_still_ended_when_it_grows_on():
    instance = Instance()
    async with child(GROWS) as process:
        guard = Guard(look_every_s=0.01)
        with guard.guarding(process.pid, instance, memory_bytes=100 * MIB, cpu=64.0):
            await grow(process, 82)
            await instance.told.wait()
            assert (len(instance.renewed), instance.ended) == (1, [])
            instance.told.clear()
            await grow(process, 40)
            await instance.told.wait()
    assert len(instance.renewed) == 1
    assert instance.ended


async def test_one_that_was_as_large_when_it_was_ready_is_left_alone():
    instance = Instance(is_ready=False)
    async with child(GROWS) as process:
        guard = Guard(look_every_s=0.01)
        with guard.guarding(process.pid, instance, memory_bytes=100 * MIB, cpu=64.0):
            await grow(process, 82)
            await asyncio.sleep(0.1)
            instance.is_ready = True
            await asyncio.sleep(1.5)  # longer than the guard goes without a close look
    assert (instance.renewed, instance.ended) == ([], [])


async def test_memory_that_is_shared_with_who_forked_it_is_not_its_own():
    code = """
        import os, sys
        shared = bytearray(b"x") * (200 << 20)
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            os.waitpid(pid, 0)
        else:
            os.close(1)
            sys.stdin.readline()
    """
    instance = Instance()
    async with child(code) as process:
        pid = int(await process.stdout.readline())
        guard = Guard(look_every_s=0.01)
        with guard.guarding(pid, instance, memory_bytes=64 * MIB, cpu=64.0):
            await asyncio.sleep(0.5)
        process.stdin.write(b"\n")
        await process.wait()
    assert (instance.renewed, instance.ended) == ([], [])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a processor to be kept from")
async def test_one_that_uses_more_than_its_share_is_held_to_whole_processors_in_all_its_threads():
    async with child(SPINS) as process:
        await process.stdout.readline()
        guard = Guard(look_every_s=0.05)
        with guard.guarding(process.pid, Instance(), memory_bytes=2**40, cpu=0.1):
            gives_up_at = monotonic() + 20
            threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
            assert len(threads) > 1
            while any(len(os.sched_getaffinity(thread)) > 1 for thread in threads):
                assert monotonic() < gives_up_at, "it was not held"
                await asyncio.sleep(0.05)


async def test_one_that_keeps_to_its_share_runs_wherever_there_is_room():
    async with child(GROWS) as process:
        guard = Guard(look_every_s=0.05)
        with guard.guarding(process.pid, Instance(), memory_bytes=2**40, cpu=0.5):
            await asyncio.sleep(1.3)
            assert os.sched_getaffinity(process.pid) == os.sched_getaffinity(0)


async def test_an_instance_goes_before_the_platform_when_the_machine_is_out_of_memory():
    async with child(GROWS) as process:
        with Guard().guarding(process.pid, Instance(), memory_bytes=2**40, cpu=1.0):
            assert oom_score(process.pid) == OOM_SCORE


async def test_one_that_has_ended_is_no_matter():
    instance = Instance()
    async with child("pass") as process:
        await process.wait()
        with Guard(look_every_s=0.01).guarding(process.pid, instance, memory_bytes=1, cpu=0.1):
            await asyncio.sleep(0.05)
    assert (instance.renewed, instance.ended) == ([], [])


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        assert raise_descriptors() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
