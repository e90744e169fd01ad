import asyncio

import pytest

from faas.description import Description, EndpointRecord
from faas.platform.autoscaler import scaling_settings
from faas.platform.habits import Habit
from faas.platform.instances import Instance, State
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.preparation import Origin, Preparation


def description(**changes):
    values = {
        "name": "f",
        "target": "/app.py:f",
        "module": "app",
        "endpoints": (EndpointRecord("/", raw=False, streams=False),),
        "batched": False,
        "target_inputs": 1,
        "max_inputs": 2,
        "max_queue": 20,
        "min_instances": 0,
        "max_instances": 3,
        "buffer_instances": 0,
        "activation_scale": 1,
        "scaledown_window_s": 6.0,
        "timeout_s": 60.0,
        "startup_timeout_s": 20.0,
        "grace_period_s": 5.0,
        "cpu": 1.0,
        "memory_bytes": 2**30,
        "env": {},
    }
    return Description(**values | changes)


class FakeLauncher:
    """Launches nothing: the test says what becomes of each instance."""

    def __init__(self, clock):
        self.clock = clock
        self.launched = []
        self.stopped = []
        self._changed = {}

    def launch(self, preparation, log, changed, *, num_spared=0):
        made = Instance(
            id=f"{preparation.name}-{len(self.launched)}",
            function=preparation.name,
            revision="r",
            address=f"/nowhere/{len(self.launched)}",
            ordered_at=self.clock(),
            num_spared=num_spared,
        )
        self.launched.append(made)
        self._changed[made] = changed
        return made

    def ready(self, made, **phases):
        made.phases |= phases
        made.state = State.READY
        made.ready_at = self.clock()
        self._changed[made](made)

    def end(self, made, failure=None):
        made.state = State.STOPPED
        made.failure = failure
        made.status = 1 if failure else 0
        made.ended.set()
        self._changed[made](made)

    def leave(self, made):
        made.state = State.DRAINING
        self._changed[made](made)

    async def stop(self, made, grace_s):
        self.stopped.append(made)
        if made.state is not State.STOPPED:
            self.end(made)


class Waiter:
    def __init__(self, capacity):
        self.capacity = capacity
        self.endpoint = None
        self.reason = None
        capacity.concurrency.enter()
        endpoint = capacity.acquire()
        if endpoint is not None:
            self.granted(endpoint)
        else:
            capacity.hold(self)

    def granted(self, endpoint):
        self.endpoint = endpoint

    def refused(self, reason, retry_after_s):
        self.reason = (reason, retry_after_s)
        self.capacity.concurrency.leave()

    def done(self):
        self.capacity.concurrency.leave()
        self.capacity.release(self.endpoint)


class Bench:
    """A loop under a fake clock; `run` steps it as often as it asks to be stepped."""

    def __init__(self, tmp_path, *, habit=None, admit=None, **changes):
        self.now = 1000.0
        self.launcher = FakeLauncher(lambda: self.now)
        origin = Origin(python="3", sources={}, distributions={})
        preparation = Preparation(description=description(**changes), origin=origin, siblings=("f",), imports=())
        self.imported = []
        self.loop = ScalingLoop(
            preparation,
            self.launcher,
            LogFile(tmp_path, "f"),
            on_imported=self.imported.append,
            habit=habit,
            admit=admit or (lambda _: None),
            clock=lambda: self.now,
        )

    async def run(self, seconds=0.0):
        until = self.now + seconds
        while True:
            wait_s = self.loop.step(self.now)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if wait_s is None or self.now + wait_s > until or seconds == 0.0:
                self.now = until
                return wait_s
            self.now += max(wait_s, 0.001)

    def call(self):
        return Waiter(self.loop.capacity)

    @property
    def living(self):
        return [made for made in self.loop.instances if made.serves]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_at_zero_it_sleeps_without_a_timer(bench):
    assert asyncio.run(bench.run()) is None
    assert bench.launcher.launched == []


def test_a_held_request_starts_one_instance_at_once_and_is_sent_to_it(bench):
    async def story():
        call = bench.call()
        await bench.run()
        assert len(bench.launcher.launched) == 1
        bench.now += 0.05
        bench.launcher.ready(bench.launcher.launched[0])
        assert call.endpoint is not None
        assert bench.loop.starts.last.total_s == pytest.approx(0.05)

    asyncio.run(story())


def test_back_to_zero_after_the_window_and_asleep_again(bench):
    async def story():
        call = bench.call()
        await bench.run()
        bench.launcher.ready(bench.launcher.launched[0])
        bench.now += 0.1
        call.done()
        await bench.run(5.0)
        assert len(bench.living) == 1
        await bench.run(5.0)
        assert bench.living == []
        assert bench.launcher.stopped == bench.launcher.launched
        assert await bench.run(1.0) is None

    asyncio.run(story())


def test_two_callers_at_once_bring_a_second_instance(bench):
    async def story():
        calls = [bench.call(), bench.call()]
        await bench.run()
        bench.launcher.ready(bench.launcher.launched[0])
        assert all(call.endpoint is not None for call in calls)
        await bench.run(3.0)
        assert len(bench.living) == 2

    asyncio.run(story())


def test_never_more_than_the_most(tmp_path):
    async def story():
        bench = Bench(tmp_path, max_instances=2)
        for _ in range(50):
            bench.call()
        for _ in range(5):
            await bench.run(2.0)
            for made in bench.launcher.launched:
                if made.state is State.STARTING:
                    bench.launcher.ready(made)
        assert len(bench.living) == 2

    asyncio.run(story())


def test_the_least_is_kept_without_any_call(tmp_path):
    async def story():
        bench = Bench(tmp_path, min_instances=1)
        await bench.run(1.0)
        bench.launcher.ready(bench.launcher.launched[0])
        await bench.run(60.0)
        assert len(bench.living) == 1

    asyncio.run(story())


def test_scale_to_zero_by_hand_drains_at_once_and_the_next_call_wakes_it(bench):
    async def story():
        call = bench.call()
        await bench.run()
        bench.launcher.ready(bench.launcher.launched[0])
        call.done()
        await bench.loop.scale(0)
        assert bench.living == []
        assert await bench.run(1.0) is None
        second = bench.call()
        await bench.run()
        bench.launcher.ready(bench.launcher.launched[1])
        assert second.endpoint is not None

    asyncio.run(story())


@pytest.mark.parametrize(("warm_up_s", "num_spared"), [(0.04, 1), (3.0, 0), (None, 0)])
def test_a_call_that_waits_stands_in_for_an_example_once_these_are_known_to_be_brief(bench, warm_up_s, num_spared):
    async def story():
        for phases in ({} if warm_up_s is None else {"warmup": warm_up_s}, {}, {}):
            call = bench.call()
            await bench.run()
            bench.launcher.ready(bench.launcher.launched[-1], **phases)
            call.done()
            await bench.loop.scale(0)
        await bench.loop.scale(1)
        await bench.run()
        assert [made.num_spared for made in bench.launcher.launched] == [0, num_spared, num_spared, 0]

    asyncio.run(story())


def test_scale_up_by_hand_holds_for_a_window(bench):
    async def story():
        await bench.loop.scale(2)
        await bench.run(1.0)
        assert len(bench.living) == 2
        for made in bench.launcher.launched:
            bench.launcher.ready(made)
        await bench.run(4.0)
        assert len(bench.living) == 2
        await bench.run(20.0)
        assert bench.living == []

    asyncio.run(story())


def test_a_scale_up_by_hand_ends_once_all_are_ready_and_holds_from_then_on(bench):
    async def story():
        await bench.loop.scale(2)
        reaching = asyncio.ensure_future(bench.loop.reach(2))
        await bench.run(10.0)  # longer than the window
        for made in bench.launcher.launched:
            assert not reaching.done()
            bench.launcher.ready(made)
            await bench.run()
        assert await reaching is None
        await bench.run(4.0)
        assert len(bench.living) == 2
        assert await bench.loop.reach(2) is None
        await bench.run(20.0)
        assert bench.living == []

    asyncio.run(story())


def test_a_scale_up_by_hand_that_comes_to_nothing_says_why(bench):
    async def story():
        await bench.loop.scale(2)
        reaching = asyncio.ensure_future(bench.loop.reach(2))
        await bench.run()
        bench.launcher.ready(bench.launcher.launched[0])
        bench.launcher.end(bench.launcher.launched[1], failure="MemoryError")
        assert await reaching == "MemoryError"
        await bench.loop.scale(2)
        assert await bench.loop.reach(2) == "MemoryError"  # it is not tried again yet
        await bench.loop.scale(0)

    asyncio.run(story())


def test_a_scale_up_by_hand_that_finds_no_room_says_so(tmp_path):
    async def story():
        bench = Bench(tmp_path, admit=lambda _: "no memory for an instance")
        await bench.loop.scale(1)
        assert await bench.loop.reach(1) == "no memory for an instance"

    asyncio.run(story())


def test_a_scale_up_by_hand_that_is_taken_back_says_so(bench):
    async def story():
        await bench.loop.scale(2)
        reaching = asyncio.ensure_future(bench.loop.reach(2))
        await bench.run()
        await bench.loop.scale(0)
        assert "stopped before it was ready" in await reaching

    asyncio.run(story())


def test_a_drain_waits_for_what_is_in_flight(bench):
    async def story():
        call = bench.call()
        await bench.run()
        bench.launcher.ready(bench.launcher.launched[0])
        scaling = asyncio.ensure_future(bench.loop.scale(0))
        await asyncio.sleep(0.01)
        assert bench.launcher.stopped == []
        call.done()
        await scaling
        assert bench.launcher.stopped == bench.launcher.launched[:1]

    asyncio.run(story())


def test_starts_that_fail_back_off_and_those_who_wait_are_told_why(bench):
    async def story():
        first = bench.call()
        await bench.run()
        bench.launcher.end(bench.launcher.launched[0], failure="ImportError: no module named nope")
        await bench.run()
        assert first.reason is not None
        assert "ImportError: no module named nope" in first.reason[0]
        assert first.reason[1] >= 1
        await bench.run(0.2)
        assert len(bench.launcher.launched) == 1
        bench.now += 1.0
        second = bench.call()
        await bench.run()
        assert len(bench.launcher.launched) == 2
        bench.launcher.ready(bench.launcher.launched[1])
        assert second.endpoint is not None
        assert bench.loop.starts.failure is None

    asyncio.run(story())


@pytest.mark.parametrize("num_answered", [0, 1])
def test_one_that_has_answered_is_replaced_at_once_and_one_that_has_not_backs_off(bench, num_answered):
    async def story():
        for _ in range(5):
            bench.call()
            await bench.run()
            for made in list(bench.living):
                bench.launcher.ready(made)
                bench.loop.capacity.endpoints[0].num_answered = num_answered
                bench.launcher.end(made)
        assert len(bench.launcher.launched) == (5 if num_answered else 1)

    asyncio.run(story())


def test_a_crash_loop_does_not_spin(bench):
    async def story():
        for _ in range(200):
            bench.call()
            await bench.run(0.1)
            for made in list(bench.living):
                bench.launcher.end(made, failure="boom")
        assert len(bench.launcher.launched) <= 8  # 20 s of doubling waits from 0.5 s

    asyncio.run(story())


def test_an_instance_that_dies_is_replaced_while_calls_come(bench):
    async def story():
        call = bench.call()
        await bench.run()
        first = bench.launcher.launched[0]
        bench.launcher.ready(first)
        await bench.run(3.0)
        bench.launcher.end(first, failure=None)
        assert call.endpoint is not None
        bench.call()
        await bench.run()
        assert len(bench.living) == 1
        assert bench.living[0] is not first

    asyncio.run(story())


def test_an_instance_that_wants_to_leave_is_drained(bench):
    async def story():
        call = bench.call()
        await bench.run()
        first = bench.launcher.launched[0]
        bench.launcher.ready(first)
        bench.launcher.leave(first)
        assert bench.loop.capacity.endpoints == ()
        call.done()
        await asyncio.sleep(0.01)
        assert bench.launcher.stopped == [first]

    asyncio.run(story())


def test_what_calls_imported_is_told_once(bench):
    async def story():
        bench.call()
        await bench.run()
        made = bench.launcher.launched[0]
        bench.launcher.ready(made)
        made.imported = ["scipy"]
        bench.launcher.end(made)
        assert bench.imported == [["scipy"]]

    asyncio.run(story())


def test_what_has_no_load_and_nothing_due_is_left_alone(tmp_path):
    async def story():
        bench = Bench(tmp_path, min_instances=1)
        await bench.run()
        bench.launcher.ready(bench.living[0])
        await bench.run(3.0)
        assert await bench.run(100.0) is None, "no timer"
        busy = [bench.call() for _ in range(3)]
        assert bench.loop._changed.is_set(), "a call after a pause is looked at"
        await bench.run(6.0)
        assert len(bench.living) > 1
        assert busy[0].endpoint is not None

    asyncio.run(story())


def test_while_it_is_kept_by_retention_the_next_step_is_its_end(tmp_path):
    async def story():
        bench = Bench(tmp_path, scaledown_window_s=600.0)
        await answered(bench)
        await bench.run(70.0)
        wait_s = await bench.run()
        assert 500 < wait_s < 600
        await bench.run(wait_s + 0.1)
        assert bench.living == []

    asyncio.run(story())


async def answered(bench):
    """Call once, and be answered."""
    call = bench.call()
    await bench.run()
    for made in bench.living:
        if made.state is State.STARTING:
            bench.launcher.ready(made)
    call.done()


def regular(idle_s=605.0):
    habit = Habit()
    for _ in range(20):
        habit.returned(idle_s)
    return habit


def test_with_a_habit_it_goes_soon_and_is_warm_again_before_it_is_called(tmp_path):
    async def story():
        bench = Bench(tmp_path, habit=regular(), scaledown_window_s=60.0)
        await answered(bench)
        await bench.run(9.0)
        assert len(bench.living) == 1, "the burst may go on"
        await bench.run(3.0)
        assert bench.living == [], "long before its window has passed"
        await bench.run(500.0)
        assert bench.living == []
        await bench.run(90.0)
        assert len(bench.living) == 1, "0.9 * 600 s after its last answer"
        bench.launcher.ready(bench.living[0])
        call = bench.call()
        assert call.endpoint is not None, "not cold"
        call.done()
        assert bench.loop._wanted._habit.known.num_within == 21

    asyncio.run(story())


def test_what_was_warmed_for_nothing_goes_at_the_end_of_its_time(tmp_path):
    async def story():
        bench = Bench(tmp_path, habit=regular())
        await answered(bench)
        await bench.run(600.0)
        bench.launcher.ready(bench.living[0])
        await bench.run(120.0)
        assert len(bench.living) == 1
        await bench.run(10.0)
        assert bench.living == [], "1.1 * 660 s after its last answer"
        assert await bench.run(1.0) is None, "and nothing is due any more"

    asyncio.run(story())


def test_a_platform_that_starts_again_warms_what_is_due(tmp_path):
    async def story():
        habit = regular()
        habit.last_s = 1000.0 - 530.0
        bench = Bench(tmp_path, habit=habit)
        assert await bench.run() == pytest.approx(10.0)
        await bench.run(11.0)
        assert len(bench.living) == 1

    asyncio.run(story())


def test_the_least_wins_over_a_habit(tmp_path):
    async def story():
        bench = Bench(tmp_path, habit=regular(), min_instances=1)
        await bench.run()
        await answered(bench)
        await bench.run(300.0)
        assert len(bench.living) == 1

    asyncio.run(story())


def test_a_start_without_room_is_refused_and_tried_again_for_the_next_call(tmp_path):
    async def story():
        reasons = ["no memory"]
        bench = Bench(tmp_path, admit=lambda _: reasons[0] if reasons else None)
        call = bench.call()
        assert await bench.run() is None
        assert call.reason == ("no memory", 5)
        assert bench.loop.starts.failure == "no memory"
        reasons.clear()
        await answered(bench)
        assert bench.loop.starts.failure is None

    asyncio.run(story())


def test_the_mapping_to_knatives_settings():
    settings = scaling_settings(description(target_inputs=8, max_inputs=16, scaledown_window_s=90.0, min_instances=1))
    assert (settings.total, settings.utilization, settings.target_burst_capacity) == (8.0, 1.0, -1)
    assert (settings.stable_window_s, settings.retention_s) == (60, 30.0)
    assert (settings.min_scale, settings.max_scale, settings.initial_scale) == (1, 3, 0)
    assert settings.scale_to_zero_grace_s == 0.0
    assert scaling_settings(description(), grace_s=30.0).scale_to_zero_grace_s == 30.0
