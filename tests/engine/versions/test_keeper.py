from __future__ import annotations

import asyncio
import threading

import pytest

from faas import Calls, Versions
from faas.engine.versions import report
from faas.engine.versions.lifecycle import Entry
from faas.engine.versions.source import SourceError
from faas.engine.versions.states import State, Step
from faas.errors import BadLabel, QueueFull, SettingError, StartFailed, Unavailable, UnknownVersion
from tests.engine.versions.rig import LONG_S, keeping

ONCE = {"poll_s": 0.0, "retry_s": -1.0, "load_retries": 0}


def test_l8_the_latest_is_the_highest_that_is_ready(run):
    async def story() -> None:
        async with keeping(1, 2, spec=Versions(policy="all", **ONCE)) as kept:
            assert await kept.answer() == 2
            assert await kept.answer(version=1) == 1
            with pytest.raises(UnknownVersion, match="version 3 of numbered is not served; these are: 1, 2"):
                await kept.answer(version=3)
            kept.bench.broken[3] = "no weights"
            kept.bench.put(1, 2, 3)
            await kept.keeper.follow()
            assert await kept.answer() == 2  # 3 is there, but not ready

    run(story())


def test_l8_back_to_a_smaller_number(run):
    async def story() -> None:
        async with keeping(1, 2) as kept:
            assert await kept.answer() == 2
            kept.bench.put(1)
            await kept.keeper.follow()
            assert await kept.answer() == 1
            assert kept.states() == {1: State.AVAILABLE, 2: State.END}

    run(story())


def test_l6_the_old_one_serves_while_the_new_one_loads(run):
    async def story() -> None:
        async with keeping(1) as kept:
            kept.bench.loading[2] = threading.Event()
            kept.bench.put(1, 2)
            await kept.keeper.look()
            await kept.until(lambda: kept.states().get(2) is State.LOADING)
            assert await kept.answer() == 1
            kept.bench.loading[2].set()
            await kept.until(lambda: kept.states()[1] is State.END)
            assert await kept.answer() == 2
            assert kept.told.index((2, "AVAILABLE")) < kept.told.index((1, "UNLOADING"))

    run(story())


def test_l7_where_room_is_scarce_the_old_one_goes_first(run):
    async def story() -> None:
        async with keeping(1, spec=Versions(transition="resource", **ONCE)) as kept:
            kept.bench.put(2)
            await kept.keeper.look()
            with pytest.raises(Unavailable):
                await kept.answer()
            await kept.keeper.follow()
            assert await kept.answer() == 2
            assert kept.told.index((1, "END")) < kept.told.index((2, "LOADING"))

    run(story())


def test_l9_a_call_holds_its_version_until_it_is_answered(run):
    async def story() -> None:
        async with keeping(1) as kept:
            hold = kept.bench.held[1] = threading.Event()
            first = asyncio.ensure_future(kept.answer())
            await kept.until(lambda: True)
            await asyncio.sleep(0)
            kept.bench.put(2)
            # The model thread is one: version 2 answers its examples, of which it has none, and takes calls.
            await kept.keeper.look()
            await kept.until(lambda: kept.states()[1] is State.UNLOADING)
            with pytest.raises(UnknownVersion):
                await kept.answer(version=1)
            assert kept.bench.torn_down == []
            assert not first.done()
            hold.set()
            assert await first == 1
            await kept.until(lambda: kept.states()[1] is State.END)
            assert kept.bench.torn_down == [1]
            assert await kept.answer() == 2

    run(story())


def test_l9_a_caller_who_leaves_lets_the_version_go(run):
    async def story() -> None:
        async with keeping(1) as kept:
            hold = kept.bench.held[1] = threading.Event()
            call = kept.call()
            kept.engine.submit(call)
            assert kept.engine.num_running + kept.engine.num_queued == 1
            call.leave()
            assert call.lane is None
            hold.set()
            kept.bench.put(2)
            await kept.keeper.follow()
            assert kept.bench.torn_down == [1]

    run(story())


def test_l9_memory_is_freed_and_not_on_a_thread_that_calls_need(run):
    async def story() -> None:
        async with keeping(1) as kept:
            await kept.answer()
            await kept.thread.run(lambda: None)  # which has let go of the batch by then
            kept.bench.put(2)
            await kept.keeper.follow()
            torn_down_on, freed_on = kept.bench.ended_on[1]
            assert torn_down_on is freed_on
            assert freed_on is not threading.current_thread()
            assert not kept.thread.is_own(freed_on.ident)
            assert kept.bench.is_freed(1)
            assert not kept.bench.is_freed(2)
            assert kept.keeper.mapped_bytes == 200

    run(story())


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()], ids=lambda one: type(one).__name__
)
def test_a_version_goes_whatever_its_teardown_raises(run, error: BaseException):
    class Fails(list[int]):
        def append(self, number: int) -> None:
            raise error

    async def story() -> None:
        async with keeping(1) as kept:
            kept.bench.torn_down = Fails()
            kept.bench.put(2)
            async with asyncio.timeout(LONG_S):
                await kept.keeper.follow()
            assert kept.states() == {2: State.AVAILABLE, 1: State.END}
            assert await kept.answer() == 2

    run(story())


def test_l10_available_is_said_after_calls_succeed_and_unloading_before_they_fail(run):
    async def story() -> None:
        async with keeping(1) as kept:
            seen: dict[tuple[int, str], bool] = {}

            def watch(entry: Entry) -> None:
                seen[entry.number, entry.step.state.name] = entry.number in kept.keeper.lanes.ready

            kept.watch = watch
            kept.bench.put(2)
            await kept.keeper.follow()
            assert seen[2, "LOADING"] is False
            assert seen[2, "AVAILABLE"] is True
            assert seen[1, "END"] is False

    run(story())


def test_l10_calls_succeed_still_when_unloading_is_said(run):
    async def story() -> None:
        async with keeping(1) as kept:
            steps: list[tuple[Step, bool]] = []
            kept.watch = lambda entry: steps.append((entry.step, 1 in kept.keeper.lanes.ready))
            kept.bench.put()
            await kept.keeper.follow()
            assert steps[0] == (Step.QUIESCING, True)
            assert steps[1:] == [(Step.UNLOADING, False), (Step.DISABLED, False)]

    run(story())


def test_l11_a_broken_version_leaves_the_old_one_serving_with_the_reason(run):
    async def story() -> None:
        async with keeping(1, spec=Versions(poll_s=0, load_retries=2, retry_s=-1)) as kept:
            kept.bench.broken[2] = "no weights"
            kept.bench.put(1, 2)
            await kept.keeper.look()
            await kept.until(lambda: kept.states()[2] is State.END)
            assert kept.bench.num_loads[2] == 3
            assert await kept.answer() == 1
            [broken] = [one for one in kept.keeper.overview()["versions"] if one["version"] == 2]
            assert broken["reason"] == "ValueError: no weights"
            told = report.status(kept.keeper.entries)["model_version_status"][0]
            assert (told["version"], told["state"]) == ("2", "END")
            assert told["status"] == {"error_code": "UNKNOWN", "error_message": "ValueError: no weights"}

    run(story())


def test_l11_what_failed_is_tried_again_where_it_is_to_be_promoted_and_where_that_is_asked_for(run):
    async def story() -> None:
        async with keeping(1) as kept:
            kept.bench.broken[2] = "no weights"
            kept.bench.put(1, 2)
            await kept.keeper.follow()
            await kept.keeper.follow()
            assert kept.bench.num_loads[2] == 1
            kept.bench.say(also=(2,))
            await kept.keeper.follow()
            await kept.keeper.follow()
            assert kept.bench.num_loads[2] == 2
            await kept.keeper.load()
            assert kept.bench.num_loads[2] == 3
            kept.bench.broken.clear()
            await kept.keeper.load()
            assert await kept.answer() == 2

    run(story())


def test_l11_what_failed_is_tried_again_once_its_files_have_changed(run):
    async def story() -> None:
        async with keeping(1, spec=Versions(poll_s=0.0, load_retries=0)) as kept:
            kept.bench.broken[2] = "no weights"
            kept.bench.put(1, 2)
            kept.bench.there.stamps = {1: 0, 2: 0}
            for _ in range(2):
                await kept.keeper.follow()
                assert kept.states() == {1: State.AVAILABLE, 2: State.END}
            assert kept.bench.num_loads == {1: 1, 2: 1}
            del kept.bench.broken[2]
            kept.bench.there.stamps = {1: 1, 2: 1}
            await kept.keeper.follow()
            assert await kept.answer() == 2
            assert kept.bench.num_loads == {1: 1, 2: 2}  # what is served is left alone

    run(story())


def test_a_load_that_does_not_end_is_given_up(run):
    async def story() -> None:
        async with keeping(1, calls=Calls(startup_timeout_s=0.2)) as kept:
            kept.bench.loading[2] = threading.Event()
            kept.bench.put(1, 2)
            await kept.keeper.follow()
            assert await kept.answer() == 1
            assert kept.keeper.entries[0].reason == "TooSlow: it took longer than startup_timeout_s=0.2"

    run(story())


def test_polling_ends_and_begins_with_the_mode(run):
    async def story() -> None:
        async with keeping(1, spec=Versions(poll_s=0.01)) as kept:
            kept.bench.say(mode="explicit", is_loaded=True)
            await kept.keeper.follow()
            num_looks = kept.bench.there.num_looks
            kept.bench.put(2)
            await asyncio.sleep(0.05)
            assert kept.bench.there.num_looks <= num_looks + 1  # one may have been about to begin
            kept.bench.say()
            await kept.keeper.follow()
            kept.bench.put(3)
            await kept.until(lambda: kept.states().get(3) is State.AVAILABLE)

    run(story())


def test_l12_what_does_not_fit_is_refused_and_what_does_is_loaded(run):
    async def story() -> None:
        spec = Versions(policy="all", max_bytes="1Ki", **ONCE)
        async with keeping(1, spec=spec, start=False) as kept:
            kept.bench.sizes = {1: 600, 2: 2000, 3: 600, 4: 300}
            await kept.keeper.start()
            kept.bench.put(1, 2, 3, 4)
            await kept.keeper.follow()
            assert sorted(kept.keeper.lanes.ready) == [1, 4]
            status = {entry.number: (entry.code, entry.reason) for entry in kept.keeper.entries}
            assert status[4] == ("OK", None)
            assert status[2][0] == status[3][0] == "RESOURCE_EXHAUSTED"
            assert "it takes 2000 bytes" in str(status[2][1])

    run(story())


def test_l12_room_comes_back_from_a_load_that_fails_and_from_a_version_that_goes(run):
    async def story() -> None:
        spec = Versions(policy="all", max_bytes="1Ki", **ONCE)
        async with keeping(spec=spec, start=False) as kept:
            kept.bench.sizes = {1: 600, 2: 600, 3: 600}
            kept.bench.broken[2] = "no weights"
            kept.bench.put(1, 2)
            kept.bench.loading[2] = threading.Event()
            starting = asyncio.ensure_future(kept.keeper.start())
            await kept.until(lambda: kept.states().get(2) is State.LOADING)
            assert kept.states()[1] is State.START  # the two together are too many: one waits for the other
            kept.bench.loading[2].set()
            await starting
            assert kept.keeper.lanes.ready == [1]
            kept.bench.put(3)
            kept.bench.say(transition="resource")
            await kept.keeper.follow()
            assert kept.keeper.lanes.ready == [3]

    run(story())


def test_l13_many_are_loaded_at_once_at_the_start_and_one_by_one_later(run):
    async def story() -> None:
        async with keeping(1, 2, spec=Versions(policy="all", **ONCE), start=False) as kept:
            kept.bench.loading = {number: threading.Event() for number in (1, 2, 3, 4)}
            starting = asyncio.ensure_future(kept.keeper.start())
            await kept.until(lambda: list(kept.states().values()) == [State.LOADING, State.LOADING])
            kept.bench.loading[1].set()
            kept.bench.loading[2].set()
            await starting
            kept.bench.put(1, 2, 3, 4)
            await kept.keeper.look()
            await kept.until(lambda: kept.states().get(4) is State.LOADING)
            assert kept.states()[3] is State.START
            kept.bench.loading[4].set()
            await kept.until(lambda: kept.states()[3] is State.LOADING)
            kept.bench.loading[3].set()
            await kept.until(lambda: kept.states()[3] is State.AVAILABLE)

    run(story())


def test_l3_what_is_not_there_for_a_while_unloads_nothing(run):
    async def story() -> None:
        async with keeping(1) as kept:
            kept.bench.there.is_gone = True
            with pytest.raises(SourceError, match="is not there"):
                await kept.keeper.look()
            assert await kept.answer() == 1
            assert kept.keeper.overview()["problem"] == "the test's is not there"
            kept.bench.there.is_gone = False
            await kept.keeper.look()
            assert kept.keeper.overview()["problem"] is None

    run(story())


def test_l3_an_empty_folder_unloads_all_unless_the_last_is_to_stay(run):
    async def story() -> None:
        async with keeping(1) as kept:
            kept.bench.put()
            await kept.keeper.follow()
            with pytest.raises(Unavailable, match="numbered has no version at the test's"):
                await kept.answer()
        async with keeping(1, 2, spec=Versions(policy="all", keep_last=True, **ONCE)) as kept:
            kept.bench.put()
            await kept.keeper.follow()
            assert await kept.answer() == 2
            assert kept.keeper.lanes.ready == [2]
            kept.bench.put(3)
            await kept.keeper.follow()
            assert kept.keeper.lanes.ready == [3]

    run(story())


@pytest.mark.parametrize(("poll_s", "is_looked_at"), [(0.01, True), (0.0, False), (-1.0, False)])
def test_l3_the_source_is_looked_at_every_so_often_once_or_never(run, poll_s: float, is_looked_at: bool):
    async def story() -> None:
        async with keeping(1, spec=Versions(poll_s=poll_s)) as kept:
            if poll_s < 0:
                await kept.keeper.load()
            assert await kept.answer() == 1
            kept.bench.put(2)
            if is_looked_at:
                await kept.until(lambda: kept.states()[1] is State.END)
                assert await kept.answer() == 2
            else:
                num_looks = kept.bench.there.num_looks
                await asyncio.sleep(0.05)
                assert kept.bench.there.num_looks == num_looks
                assert await kept.answer() == 1

    run(story())


def test_l4_a_bad_file_is_refused_at_the_start_and_later_the_old_one_kept(run):
    async def story() -> None:
        async with keeping(1, 2, start=False) as kept:
            kept.bench.there.file = b"{"
            with pytest.raises(StartFailed, match=r"versions\.json"):
                await kept.keeper.start()
        async with keeping(1, 2, start=False) as kept:
            kept.bench.say(policy="specific", versions=(1,))
            await kept.keeper.start()
            kept.bench.there.file = b'{"policy": 1}'
            with pytest.raises(SettingError, match="policy"):
                await kept.keeper.look()
            assert await kept.answer() == 1
            assert "policy" in str(kept.keeper.problem)
            kept.bench.say(policy="specific", versions=(2,))
            await kept.keeper.follow()
            assert kept.keeper.lanes.ready == [2]

    run(story())


def test_l4_without_polling_changes_of_the_file_are_ignored(run):
    async def story() -> None:
        async with keeping(1, 2) as kept:
            kept.bench.say(policy="specific", versions=(1,), labels={"stable": 1})
            await asyncio.sleep(0.05)
            assert await kept.answer() == 2
            assert kept.keeper.lanes.ready == [2]

    run(story())


def test_l2_what_the_policy_lacks_is_logged_once_and_the_others_are_served(run, caplog: pytest.LogCaptureFixture):
    async def story() -> None:
        async with keeping(1, spec=Versions(policy="specific", versions=(1, 2), **ONCE)) as kept:
            for _ in range(3):
                await kept.keeper.follow()
            assert await kept.answer() == 1

    run(story())
    assert [record.getMessage() for record in caplog.records] == [
        "numbered: the policy names version 2, which is not there"
    ]


def test_l14_there_again_while_it_unloads_it_is_unloaded_and_loaded_again(run):
    async def story() -> None:
        async with keeping(1) as kept:
            hold = kept.bench.held[1] = threading.Event()
            first = asyncio.ensure_future(kept.answer())
            await asyncio.sleep(0)
            kept.bench.put()
            await kept.keeper.look()
            await kept.until(lambda: kept.states()[1] is State.UNLOADING)
            kept.bench.put(1)
            await kept.keeper.look()
            assert kept.states()[1] is State.UNLOADING
            hold.set()
            assert await first == 1
            await kept.until(lambda: kept.states()[1] is State.AVAILABLE)
            assert kept.bench.num_loads[1] == 2
            assert await kept.answer() == 1

    run(story())


def test_l15_an_unknown_label_is_refused(run):
    async def story() -> None:
        async with keeping(1) as kept:
            kept.bench.say(labels={"canary": 1, "nowhere": 9})
            await kept.keeper.follow()
            assert await kept.answer(label="canary") == 1
            with pytest.raises(BadLabel, match="'nowhere' that leads to a version; it has: canary"):
                await kept.answer(label="nowhere")

    run(story())


def test_l16_the_examples_are_answered_before_a_version_is_available(run):
    async def story() -> None:
        async with keeping(1, warmup=[1, 2]) as kept:
            kept.bench.held[2] = threading.Event()
            kept.bench.put(2)
            await kept.keeper.look()
            await kept.until(lambda: kept.states()[2] is State.LOADING)
            kept.bench.held[2].set()
            await kept.until(lambda: kept.states()[2] is State.AVAILABLE)
            assert await kept.answer() == 2

    run(story())


def test_l16_an_example_that_fails_fails_the_load(run):
    async def story() -> None:
        async with keeping(1, warmup=["no number"], start=False) as kept:
            with pytest.raises(
                StartFailed, match=r"version 1 of numbered cannot be loaded: .*warmup\[0\] does not fit"
            ):
                await kept.keeper.start()

    run(story())


def test_l17_canary_and_rollback_by_moving_labels(run):
    async def story() -> None:
        spec = Versions(policy="specific", versions=(42, 43), **ONCE)
        async with keeping(42, 43, spec=spec, start=False) as kept:
            kept.bench.say(labels={"stable": 42, "canary": 43})
            await kept.keeper.start()
            assert [await kept.answer(), await kept.answer(label="canary")] == [42, 43]
            kept.bench.say(labels={"stable": 43})
            await kept.keeper.follow()
            assert [await kept.answer(), await kept.answer(label="stable")] == [43, 43]
            assert await kept.answer(version=42) == 42
            kept.bench.say(labels={"stable": 42})
            await kept.keeper.follow()
            assert await kept.answer() == 42
            assert kept.bench.num_loads == {42: 1, 43: 1}

    run(story())


def test_l17_following_is_over_when_nobody_is_answered_by_the_old_one_any_more(run):
    async def story() -> None:
        async with keeping(1, 2, spec=Versions(policy="all", **ONCE), start=False) as kept:
            kept.bench.say(labels={"stable": 1})
            await kept.keeper.start()
            hold = kept.bench.held[1] = threading.Event()
            old = asyncio.ensure_future(kept.answer())
            await asyncio.sleep(0)
            kept.bench.say(labels={"stable": 2})
            following = asyncio.ensure_future(kept.keeper.follow())
            while kept.keeper.lanes.default != 2:
                await asyncio.sleep(0)
            assert not following.done()
            hold.set()
            await following
            assert old.done()
            assert await old == 1

    run(story())


def test_l18_all_versions_run_on_one_thread_each_with_a_queue_of_its_own(run):
    async def story() -> None:
        async with keeping(1, 2, spec=Versions(policy="all", **ONCE)) as kept:
            hold = kept.bench.held[1] = threading.Event()
            calls = [asyncio.ensure_future(kept.answer(version=number)) for number in (1, 2, 1, 2)]
            await asyncio.sleep(0.01)
            assert not any(call.done() for call in calls)  # version 2 waits for the thread that 1 is on
            hold.set()
            assert await asyncio.gather(*calls) == [1, 2, 1, 2]

    run(story())


def test_l18_a_queue_that_is_full_is_one_versions_own(run):
    async def story() -> None:
        spec = Versions(policy="all", **ONCE)
        async with keeping(1, 2, spec=spec, calls=Calls(max_queue=1)) as kept:
            hold = kept.bench.held[1] = threading.Event()
            running = asyncio.ensure_future(kept.answer(version=1))
            assert await asyncio.to_thread(kept.bench.entered.wait, LONG_S)
            waiting = [asyncio.ensure_future(kept.answer(version=number)) for number in (1, 2)]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await kept.answer(version=1)
            waiting.append(asyncio.ensure_future(kept.answer(version=2)))
            hold.set()
            assert await asyncio.gather(running, *waiting) == [1, 1, 2, 2]

    run(story())


def test_a_promoted_version_is_held_and_what_it_replaces_goes(run):
    async def story() -> None:
        async with keeping(1, 2) as kept:
            kept.bench.say(labels={"stable": 1})
            await kept.keeper.follow()
            assert await kept.answer() == 1
            assert sorted(kept.keeper.lanes.ready) == [1, 2]
            kept.bench.say(labels={"stable": 2})
            await kept.keeper.follow()
            assert await kept.answer() == 2
            assert kept.keeper.lanes.ready == [2]
            assert kept.bench.torn_down == [1]

    run(story())


def test_a_label_whose_version_breaks_stays_where_it_was(run):
    async def story() -> None:
        async with keeping(1, 2, start=False) as kept:
            kept.bench.say(labels={"stable": 1})
            kept.bench.broken[3] = "no weights"
            kept.bench.put(1, 2, 3)
            await kept.keeper.start()
            kept.bench.say(labels={"stable": 3})
            await kept.keeper.follow()
            assert await kept.answer() == 1
            assert kept.states()[3] is State.END

    run(story())


def test_an_instance_that_starts_waits_for_the_version_of_stable(run):
    async def story() -> None:
        async with keeping(1, 2, start=False) as kept:
            kept.bench.say(labels={"stable": 1})
            kept.bench.loading[1] = threading.Event()
            starting = asyncio.ensure_future(kept.keeper.start())
            await kept.until(lambda: kept.states().get(2) is State.AVAILABLE)
            with pytest.raises(Unavailable, match="version 1 of numbered, where the label stable leads"):
                await kept.answer()
            kept.bench.loading[1].set()
            await starting
            assert await kept.answer() == 1

    run(story())


def test_an_instance_that_starts_without_a_version_says_so(run):
    async def story() -> None:
        async with keeping(start=False) as kept:
            with pytest.raises(StartFailed, match="faas snapshot create TARGET --version 1 makes one"):
                await kept.keeper.start()
        async with keeping(1, start=False) as kept:
            kept.bench.say(labels={"stable": 1})
            kept.bench.broken[1] = "no weights"
            with pytest.raises(StartFailed, match="version 1 of numbered cannot be loaded: ValueError: no weights"):
                await kept.keeper.start()

    run(story())


def test_where_the_newest_is_broken_an_instance_that_starts_takes_the_one_before(run):
    async def story() -> None:
        async with keeping(1, 2, 3, start=False) as kept:
            kept.bench.broken = {3: "no weights", 2: "no weights"}
            await kept.keeper.start()
            assert await kept.answer() == 1
            kept.bench.put(1, 2, 3, 4)
            await kept.keeper.follow()
            assert await kept.answer() == 4
            assert kept.keeper.lanes.ready == [4]

    run(story())


def test_d14_in_explicit_mode_versions_are_loaded_and_unloaded_when_asked(run):
    async def story() -> None:
        async with keeping(1, 2, spec=Versions(mode="explicit", **ONCE)) as kept:
            with pytest.raises(Unavailable, match="none is until that is asked for"):
                await kept.answer()
            await kept.keeper.load()
            assert await kept.answer() == 2
            kept.bench.broken[3] = "no weights"
            kept.bench.put(1, 2, 3)
            await kept.keeper.load()  # a load that fails leaves the old one
            assert await kept.answer() == 2
            await kept.keeper.unload()
            assert kept.keeper.lanes.ready == []
        async with keeping(1) as kept:
            with pytest.raises(SettingError, match="follows its source"):
                await kept.keeper.unload()

    run(story())


def test_what_is_brought_ahead_is_taken_once(run):
    async def story() -> None:
        async with keeping(1, 2, start=False) as kept:
            kept.bench.ahead[2] = kept.bench.bring("/2")
            await kept.keeper.start()
            assert await kept.answer() == 2
            assert kept.bench.ahead == {}
            assert kept.bench.take_ahead(2, "/2") is None

    run(story())


def test_ending_gives_every_caller_an_outcome(run):
    async def story() -> None:
        async with keeping(1) as kept:
            hold = kept.bench.held[1] = threading.Event()
            call = asyncio.ensure_future(kept.answer())
            await asyncio.sleep(0)
            ending = asyncio.ensure_future(kept.engine.drain(LONG_S))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable):
                await kept.answer()
            hold.set()
            await ending
            assert await call == 1

    run(story())
