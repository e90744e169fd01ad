"""The memory budget over real control loops, with instances and zygotes that are made up."""

import asyncio
import os

import msgspec
import pytest

from faas.platform import forking, memory
from faas.platform.instances import State
from faas.platform.memory import MemoryKeeper, _group_limit, read_default_budget
from tests.platform.stub import until
from tests.platform.test_loop import Bench, answered
from warmpool.environment import Environment
from warmpool.memory import Memory
from warmpool.pool import Held

MIB = 2**20


class FakePool:
    """Zygotes by environment; what is let go is gone at once."""

    def __init__(self):
        self.held = {}
        self.gone = []
        self.measuring_s = 0.0
        self.num_looks = 0

    def add(self, environment, mib, **changes):
        values = {"num_workers": 0, "num_heirs": 0, "start_s": 1.0, "used_at": 0.0} | changes
        self.held[environment] = Held(environment=environment, memory=Memory(mib * MIB, mib * MIB), **values)

    async def sizes(self):
        self.num_looks += 1
        await asyncio.sleep(self.measuring_s)
        return list(self.held.values())

    async def let_go(self, environment):
        self.gone.append(environment)
        return self.held.pop(environment, None) is not None


class Box:
    """Functions with instances of 100 MiB each, under a budget."""

    def __init__(self, tmp_path, budget_mib, num_functions=3, **changes):
        self.pool = FakePool()
        self.sizes = {os.getpid(): Memory(50 * MIB, 50 * MIB)}
        self.keeper = MemoryKeeper(
            budget_mib * MIB,
            self.pool,
            lambda: [bench.loop for bench in self.benches],
            read=lambda pid: self.sizes.get(pid, Memory()),
        )
        self.benches = [
            Bench(tmp_path, name=f"f{number}", admit=self.keeper.admit, **changes) for number in range(num_functions)
        ]

    async def wake(self, number, mib=100):
        """Call a function at zero and answer it; its instance stays, idle."""
        bench = self.benches[number]
        call = bench.call()
        await bench.run()
        made = bench.living[0]
        made.worker = FakeWorker(len(self.sizes) + 2**22)
        self.sizes[made.pid] = Memory(mib * MIB, mib * MIB)
        bench.now += 0.05
        bench.launcher.ready(made)
        call.endpoint.num_answered += 1
        call.done()
        await self.keeper.look()
        return made


class FakeWorker:
    def __init__(self, pid):
        self.pid = pid

    def kill(self, *_):
        pass


async def until_held(box, mib):
    """Wait until so much is known to be held: how soon that is depends on how long measuring takes here."""
    async with asyncio.timeout(10):
        await until(lambda: box.keeper.holdings.held_bytes == mib * MIB)


def test_where_there_is_room_all_stay(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 300 + 64)
        made = [await box.wake(number) for number in range(3)]
        assert all(one.state is State.READY for one in made)
        assert box.keeper.holdings.held_bytes == 350 * MIB
        assert box.keeper.holdings.num_instances == 3

    asyncio.run(story())


def test_a_start_that_has_no_room_ends_what_idles(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 200)
        first, second = await box.wake(0), await box.wake(1)
        third = await box.wake(2)
        assert (first.state, second.state, third.state) == (State.STOPPED, State.READY, State.READY)
        for bench in box.benches[:2]:
            await bench.run(3.0)
        assert [len(bench.living) for bench in box.benches] == [0, 1, 1], "what was let go is not started again"

    asyncio.run(story())


def test_what_is_evicted_comes_back_when_it_is_called(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 200)
        for number in (0, 1, 2):
            await box.wake(number)
        again = await box.wake(0)
        assert again.state is State.READY
        assert sum(len(bench.living) for bench in box.benches) == 2

    asyncio.run(story())


def test_what_is_busy_stays_and_who_finds_no_room_is_told_the_numbers(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 200)
        busy = [await box.wake(number) for number in (0, 1)]
        calls = [box.benches[number].call() for number in (0, 1)]
        assert all(call.endpoint is not None for call in calls)
        refused = box.benches[2].call()
        await box.benches[2].run()
        assert [one.state for one in busy] == [State.READY, State.READY]
        assert box.benches[2].launcher.launched == []
        reason, retry_after_s = refused.reason
        assert "no memory for an instance of f2: it needs about 64 MiB, and 0.24 of 0.24 GiB are held by 2" in reason
        assert retry_after_s >= 1
        assert await box.benches[2].run() is None, "nobody waits any more, so nothing is tried again"
        calls[0].done()
        later = await box.wake(2)
        assert later.state is State.READY

    asyncio.run(story())


def test_the_least_number_of_instances_is_never_evicted(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 100, num_functions=2, min_instances=1)
        kept = await box.wake(0)
        refused = box.benches[1].call()
        await box.benches[1].run()
        assert kept.state is State.READY
        assert refused.reason is not None

    asyncio.run(story())


def test_a_revision_that_finds_no_room_does_not_prove_itself(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 100, num_functions=2, min_instances=1)
        await box.wake(0)
        proof = asyncio.ensure_future(box.benches[1].loop.prove(1))
        await asyncio.sleep(0)
        await box.benches[1].run()
        assert "no memory" in await proof

    asyncio.run(story())


def test_a_further_instance_ends_none_of_a_function_that_has_calls(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 300, num_functions=2)
        await box.wake(0)
        spare = await box.wake(1)
        other = box.benches[1]
        busy = [other.call(), other.call()]
        await other.run(3.0)
        for made in other.living:
            if made.state is State.STARTING:
                other.launcher.ready(made)
        assert len(other.living) == 2
        busy.pop().done()  # one of the two is idle now, the function is not
        calls = [box.benches[0].call() for _ in range(2)]
        await box.benches[0].run(3.0)
        assert len(box.benches[0].living) == 1
        assert spare.state is State.READY
        assert all(call.endpoint is not None for call in calls)

    asyncio.run(story())


def test_idle_zygotes_go_too_but_not_those_in_use_nor_the_one_that_is_needed(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 330, num_functions=1)
        needed = forking.environment(box.benches[0].loop.preparation)
        box.pool.add(needed, 100, start_s=0.001)
        box.pool.add(needed.base, 100, num_heirs=1)
        idle, used = Environment(modules=("idle",)), Environment(modules=("used",))
        box.pool.add(idle, 50)
        box.pool.add(used, 50, num_workers=1)
        await box.keeper.look()
        assert box.pool.gone == []
        await box.wake(0, mib=20)
        assert box.pool.gone == [idle]
        assert set(box.pool.held) == {needed, needed.base, used}

    asyncio.run(story())


def test_a_start_whose_zygote_was_let_go_needs_that_too(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 190, num_functions=2)
        environment = forking.environment(box.benches[0].loop.preparation)
        box.pool.add(environment, 70)
        await box.keeper.look()
        box.pool.held.clear()
        await box.wake(1)
        assert box.keeper.holdings.num_zygotes == 0
        calls = box.benches[1].call()
        refused = box.benches[0].call()
        await box.benches[0].run()
        assert "it needs about 134 MiB" in refused.reason[0]
        calls.done()

    asyncio.run(story())


def test_what_has_not_been_looked_at_yet_may_go_by_its_estimate(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 100, num_functions=2)
        await box.keeper.look()
        await answered(box.benches[0])
        unseen = box.benches[0].living[0]
        call = box.benches[1].call()
        await box.benches[1].run()
        assert call.reason is None
        assert not unseen.serves

    asyncio.run(story())


def test_growth_past_the_budget_is_seen_and_made_up_for(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 264, num_functions=2)
        first, second = await box.wake(0), await box.wake(1)
        box.sizes[second.pid] = Memory(200 * MIB, 200 * MIB)
        await box.keeper.look()
        await asyncio.sleep(0.01)
        states = {first.state, second.state}
        assert states == {State.READY, State.STOPPED}

    asyncio.run(story())


def test_one_of_each_revision_is_looked_at_soon_though_measuring_everything_takes_long(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "SETTLE_S", 1.0)

    async def story():
        box = Box(tmp_path, 50 + 500, num_functions=2)
        box.pool.measuring_s = 1.0  # so that everything is measured once in fifty seconds
        keeping = asyncio.ensure_future(box.keeper.run())
        await until_held(box, 50)
        for bench, mib in zip(box.benches, (10, 20), strict=True):
            await answered(bench)
            (made,) = bench.living
            bench.loop.endpoint_of(made).num_answered += 1
            made.worker = FakeWorker(len(box.sizes) + 2**22)
            box.sizes[made.pid] = Memory(mib * MIB, mib * MIB)
        assert box.keeper.holdings.held_bytes == (50 + 64 + 64) * MIB, "guessed"
        await until_held(box, 50 + 10 + 20)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(story())


def test_a_known_revision_that_is_woken_on_an_idle_platform_is_looked_at_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "SETTLE_S", 0.0)
    monkeypatch.setattr(memory, "LOOK_EVERY_S", 0.05)

    async def story():
        box = Box(tmp_path, 50 + 1000)
        bench = box.benches[0]
        await box.wake(0, mib=20)  # known from here on
        await bench.run(30.0)
        assert bench.living == []
        num_looks = box.pool.num_looks
        keeping = asyncio.ensure_future(box.keeper.run())
        await until(lambda: box.pool.num_looks > num_looks)
        await asyncio.sleep(0.05)  # nothing lives, so it waits for a start
        await answered(bench)
        (made,) = bench.living
        made.worker = FakeWorker(2**22)
        box.sizes[made.pid] = Memory(90 * MIB, 90 * MIB)
        await until_held(box, 50 + 90)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(story())


def test_a_revision_has_one_description_of_its_zygote_however_often_it_is_asked_for(tmp_path):
    preparation = Bench(tmp_path, name="f").loop.preparation
    again = msgspec.json.decode(msgspec.json.encode(preparation), type=type(preparation))
    assert forking.environment(again) is forking.environment(preparation)
    other = msgspec.structs.replace(preparation, digest="0" * 64)
    assert again.revision == preparation.revision != other.revision
    assert forking.environment(other) != forking.environment(preparation)


def test_it_looks_after_starts_and_ends_with_the_platform(tmp_path):
    async def story():
        box = Box(tmp_path, 50 + 100)
        looking = asyncio.ensure_future(box.keeper.run())
        await until_held(box, 50)
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking

    asyncio.run(story())


def test_the_default_budget_is_read_from_the_machine_and_its_control_group(tmp_path):
    assert 0 < read_default_budget() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert _group_limit(str(tmp_path)) is None
    (tmp_path / "memory.max").write_text("max\n")
    assert _group_limit(str(tmp_path)) is None
    (tmp_path / "memory.max").write_text("1048576\n")
    assert _group_limit(str(tmp_path)) == MIB
