import asyncio
from collections import Counter

import msgspec

from faas.platform import revisions as rules
from faas.platform.hosted import Hosted
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.platform.revisions import Revisions
from tests.platform.test_loop import FakeLauncher, Waiter
from tests.platform.test_revisions import all_to, deployed, ids


class Bench:
    """A hosted function whose instances are what the test says. Made on a running loop."""

    def __init__(self, tmp_path):
        self.launcher = FakeLauncher(asyncio.get_running_loop().time)
        self.left = []
        self.log = LogFile(tmp_path, "f")
        self.hosted = Hosted("f", self.log, make=self.make, on_left=self.left.append)

    def make(self, preparation):
        clock = asyncio.get_running_loop().time
        return ScalingLoop(preparation, self.launcher, self.log, on_imported=lambda late: None, clock=clock)

    def loop(self, revision):
        return self.hosted.loop_of(revision)


def story(tmp_path, told):
    async def run():
        bench = Bench(tmp_path)
        try:
            await told(bench)
        finally:
            bench.hosted.cancel()
            await bench.hosted.stop(0)

    asyncio.run(asyncio.wait_for(run(), 20))


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_calls_go_by_shares_and_tags(tmp_path):
    async def told(bench):
        found = deployed("a", "b", "c")
        one, two, three = ids(found)
        assert bench.hosted.next() is None
        bench.hosted.adopt(rules.tag(rules.share(found, {one: 75, two: 25}), {"next": three}))
        counts = Counter(bench.hosted.next() for _ in range(100))
        assert counts == {bench.loop(one).capacity: 75, bench.loop(two).capacity: 25}
        assert bench.hosted.tagged("next") is bench.loop(three).capacity
        assert bench.hosted.tagged("other") is None
        assert bench.hosted.main.id == one
        bench.hosted.adopt(all_to(found, 2))
        assert {bench.hosted.next() for _ in range(100)} == {bench.loop(two).capacity}

    story(tmp_path, told)


def test_what_is_not_live_any_more_answers_what_it_has_and_ends(tmp_path):
    async def told(bench):
        found = deployed("a", "b")
        one, two = ids(found)
        bench.hosted.adopt(all_to(found, 1))
        capacity = bench.loop(one).capacity
        call = Waiter(capacity)
        await settle()
        bench.launcher.ready(bench.launcher.launched[0])
        held = Waiter(capacity), Waiter(capacity)
        bench.hosted.adopt(all_to(found, 2))
        assert bench.hosted.drains(one)
        assert bench.loop(one) is None
        await settle()
        assert bench.launcher.stopped == []
        call.done()
        held[0].done()
        assert held[1].endpoint is not None
        held[1].done()
        await bench.hosted.gone()
        assert bench.launcher.stopped == bench.launcher.launched
        assert [preparation.revision for preparation in bench.left] == [one]
        assert [loop.preparation.revision for loop in bench.hosted.loops] == [two]
        assert bench.hosted.num_past_starts == len(bench.launcher.launched)

    story(tmp_path, told)


def test_what_drains_goes_on_when_it_is_live_again(tmp_path):
    async def told(bench):
        found = deployed("a", "b")
        one = ids(found)[0]
        bench.hosted.adopt(all_to(found, 1))
        loop = bench.loop(one)
        call = Waiter(loop.capacity)
        await settle()
        bench.launcher.ready(bench.launcher.launched[0])
        bench.hosted.adopt(all_to(found, 2))
        bench.hosted.adopt(all_to(found, 1))
        assert bench.loop(one) is loop
        call.done()
        await settle()
        assert bench.hosted.next() is loop.capacity
        assert not bench.hosted.drains(one)
        assert bench.launcher.stopped == []

    story(tmp_path, told)


def test_what_ends_is_not_replaced(tmp_path):
    async def told(bench):
        found = deployed("a", "b")
        bench.hosted.adopt(all_to(found, 1))
        call = Waiter(bench.hosted.next())
        await settle()
        bench.launcher.ready(bench.launcher.launched[0])
        call.done()
        bench.hosted.adopt(all_to(found, 2))
        await bench.hosted.gone()
        await settle()
        assert bench.launcher.stopped == bench.launcher.launched == bench.launcher.launched[:1]

    story(tmp_path, told)


def test_what_comes_back_while_it_ends_starts_instances_again(tmp_path):
    async def told(bench):
        found = deployed("a", "b")
        bench.hosted.adopt(all_to(found, 1))
        bench.hosted.adopt(all_to(found, 2))
        await settle()
        bench.hosted.adopt(all_to(found, 1))
        Waiter(bench.hosted.next())
        await settle()
        assert len(bench.launcher.launched) == 1

    story(tmp_path, told)


def test_a_function_that_is_taken_away_runs_nothing_in_the_end(tmp_path):
    async def told(bench):
        bench.hosted.adopt(all_to(deployed("a"), 1))
        bench.hosted.adopt(Revisions(name="f"))
        assert bench.hosted.next() is None
        await bench.hosted.gone()
        assert bench.hosted.loops == []
        await bench.hosted.gone()

    story(tmp_path, told)


def test_the_counts_of_what_has_gone_are_kept(tmp_path):
    async def told(bench):
        found = deployed("a", "b")
        bench.hosted.adopt(all_to(found, 1))
        bench.hosted.next().counts.requests = 7
        bench.hosted.adopt(all_to(found, 2))
        await bench.hosted.gone()
        assert bench.hosted.past.requests == 7

    story(tmp_path, told)


def test_a_revision_proves_itself_by_its_first_instance(tmp_path):
    async def told(bench):
        (deployment,) = deployed("a").deployments
        loop = bench.hosted.start(deployment)
        proof = asyncio.ensure_future(loop.prove(2))
        await settle()
        first, second = bench.launcher.launched
        assert not proof.done()
        bench.launcher.ready(second)
        assert await proof is None
        assert await loop.prove(1) is None
        assert first.serves

    story(tmp_path, told)


def test_a_revision_whose_first_instance_ends_proves_nothing_and_says_why(tmp_path):
    async def told(bench):
        (deployment,) = deployed("a").deployments
        loop = bench.hosted.start(deployment)
        proof = asyncio.ensure_future(loop.prove(1))
        await settle()
        bench.launcher.end(bench.launcher.launched[0], "RuntimeError: no model")
        assert await proof == "RuntimeError: no model"

    story(tmp_path, told)


def test_a_proof_whose_instance_is_stopped_ends_too(tmp_path):
    async def told(bench):
        (deployment,) = deployed("a").deployments
        loop = bench.hosted.start(deployment)
        proof = asyncio.ensure_future(loop.prove(1))
        await settle()
        await loop.scale(0)
        assert "stopped" in await proof

    story(tmp_path, told)


def test_a_first_instance_may_take_longer_than_the_window(tmp_path):
    async def told(bench):
        found = deployed("a")
        short = msgspec.structs.replace(found.deployments[0].preparation.description, scaledown_window_s=6.0)
        preparation = msgspec.structs.replace(found.deployments[0].preparation, description=short)
        deployment = msgspec.structs.replace(found.deployments[0], preparation=preparation)
        now = [1000.0]
        loop = ScalingLoop(preparation, bench.launcher, bench.log, on_imported=lambda late: None, clock=lambda: now[0])
        proof = asyncio.ensure_future(loop.prove(1))
        await settle()
        for _ in range(15):
            now[0] += 1.0
            loop.step(now[0])
        assert not proof.done()
        bench.launcher.clock = lambda: now[0]
        bench.launcher.ready(bench.launcher.launched[0])
        assert await proof is None
        assert deployment.id == preparation.revision

    story(tmp_path, told)
