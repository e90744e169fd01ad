from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from faas.engine.selection import learner as module
from faas.engine.selection.feedback import Feedback
from faas.engine.selection.labels import label_of
from faas.engine.selection.learner import Learner
from faas.engine.selection.recent import Answered, Recent
from faas.engine.selection.state_file import StateFile
from faas.errors import BadInput, UnknownRequest
from faas.spec import Selection

from ..rig import FakeClock

EXP3, EXP4 = Selection(policy="exp3", eta=0.1), Selection(policy="exp4", eta=0.1)


def learner(selection: Selection = EXP3, names: str = "ab", **options: Any) -> Learner:
    return Learner(tuple(names), selection, **options)


def test_feedback_moves_the_shares_of_its_context():
    made = learner()
    made.remember("r1", Answered("ann", "a", 0.5))
    made.learn(Feedback(request_id="r1", loss=1.0), "ignored")
    assert made.shares("ann")["a"] < 0.5
    assert made.shares("") == pytest.approx({"a": 0.5, "b": 0.5})
    assert made.num_used == 1


def test_feedback_counts_once():
    made = learner()
    made.remember("r1", Answered("", "a", 0.5))
    made.learn(Feedback(request_id="r1", loss=0.0), "")
    with pytest.raises(UnknownRequest, match="'r1'"):
        made.learn(Feedback(request_id="r1", loss=0.0), "")
    assert (made.num_used, made.num_unknown) == (1, 1)


def test_what_is_wrong_with_feedback_does_not_use_it_up():
    made = learner()
    made.remember("r1", Answered("", "a", 0.5))
    for wrong in (
        Feedback(request_id="r1"),
        Feedback(request_id="r1", label="x"),
        Feedback(request_id="r1", loss=0.1, losses={"a": 0.1}),
    ):
        with pytest.raises(BadInput, match="send loss"):
            made.learn(wrong, "")
    made.learn(Feedback(request_id="r1", loss=1.0), "")


def test_an_instance_that_does_not_know_the_call_learns_from_who_answered():
    made = learner()
    made.learn(Feedback(request_id="elsewhere", loss=1.0, variant="a"), "ann")
    assert made.shares("ann")["a"] < 0.5
    with pytest.raises(BadInput, match="no variant 'c'"):
        made.learn(Feedback(request_id="elsewhere", loss=1.0, variant="c"), "")


def test_exp4_learns_from_the_right_answer():
    made = learner(EXP4)
    made.remember("r1", Answered("ann", labels={"a": label_of("cat"), "b": label_of("dog")}))
    made.learn(Feedback(request_id="r1", label="dog"), "")
    assert made.shares("ann")["b"] > 0.5
    with pytest.raises(UnknownRequest):
        made.learn(Feedback(request_id="r2", label="dog"), "")


def test_exp4_learns_from_losses_wherever_they_arrive():
    made = learner(EXP4)
    made.learn(Feedback(request_id="elsewhere", losses={"a": 0.2, "b": 0.9}), "ann")
    assert made.shares("ann")["a"] > 0.5
    with pytest.raises(BadInput, match="no variant 'c'"):
        made.learn(Feedback(request_id="r1", losses={"c": 0.2}), "")


@pytest.mark.parametrize("wrong", [{}, {"loss": 0.5}, {"label": 1, "losses": {"a": 0.0}}])
def test_exp4_says_what_it_wants(wrong: dict[str, Any]):
    with pytest.raises(BadInput, match="send label"):
        learner(EXP4).learn(Feedback(request_id="r1", **wrong), "")


def test_a_null_is_a_label():
    made = learner(EXP4)
    made.remember("r1", Answered("", labels={"a": label_of(None), "b": label_of("dog")}))
    made.learn(Feedback(request_id="r1", label=None), "")
    assert made.shares("")["a"] > 0.5


def test_the_context_is_a_header_of_the_call():
    made = learner(Selection(policy="exp3", context="X-User-Id"))
    assert made.context_of({"x-user-id": "ann"}) == "ann"
    assert made.context_of({}) == ""
    assert len(made.context_of({"x-user-id": "a" * 10_000})) == 256
    assert learner().context_of({"x-user-id": "ann"}) == ""


def test_only_the_last_calls_are_remembered():
    recent = Recent(most=2)
    for number in range(3):
        recent.add(f"r{number}", Answered("", "a", 0.5))
    recent.add("r1", Answered("", "b", 0.5))
    assert [recent.get(f"r{number}") is not None for number in range(3)] == [False, True, True]
    held = recent.get("r1")
    assert held is not None
    assert held.drawn == "b"
    assert len(recent) == 2


async def saved(made: Learner) -> None:
    await asyncio.wait_for(made.sync(), 20)


def test_what_was_learned_survives_a_restart(tmp_path: Path):
    async def scenario() -> None:
        file = StateFile(tmp_path / "f.json")
        first = learner(file=file)
        await saved(first)
        first.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
        learned = first.shares("")
        await saved(first)
        second = learner(file=file)
        await saved(second)
        assert second.shares("") == pytest.approx(learned)

    asyncio.run(scenario())


def test_variants_come_and_go_between_restarts(tmp_path: Path):
    async def scenario() -> None:
        file = StateFile(tmp_path / "f.json")
        first = learner(file=file, names="abc")
        first.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
        await saved(first)
        second = learner(file=file, names="abd")
        await saved(second)
        shares = second.shares("")
        assert shares.keys() == {"a", "b", "d"}
        assert shares["a"] < shares["d"] < shares["b"]
        assert shares["d"] == pytest.approx((shares["a"] + shares["b"]) / 2)

    asyncio.run(scenario())


def test_instances_learn_from_each_other(tmp_path: Path):
    async def scenario() -> None:
        file, clock = StateFile(tmp_path / "f.json"), FakeClock()
        one, other = learner(file=file, clock=clock), learner(file=file, clock=clock)
        await saved(one)
        await saved(other)
        for _ in range(3):
            one.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
            other.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
        assert one.shares("")["a"] > 0.1
        await saved(one)
        await saved(other)
        both = other.shares("")["a"]
        assert both < one.shares("")["a"]
        clock.now += module.REFRESH_S
        one.shares("")  # a call that comes after a while looks again
        await saved(one)
        assert one.shares("")["a"] == pytest.approx(both)

    asyncio.run(scenario())


def test_what_is_learned_while_it_is_saved_is_not_lost(tmp_path: Path):
    class Slow(StateFile):
        def merge(self, *args: Any) -> Any:
            asyncio.run_coroutine_threadsafe(meanwhile(), loop).result(20)
            return super().merge(*args)

    async def meanwhile() -> None:
        made.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")

    async def scenario() -> None:
        nonlocal loop, made
        loop = asyncio.get_running_loop()
        made = learner(file=Slow(tmp_path / "f.json"))
        made.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
        before = made.shares("")
        made._begin_sync()
        await saved(made)
        assert made.shares("")["a"] < before["a"]
        assert made._unsaved
        if made._timer is not None:
            made._timer.cancel()

    loop: Any = None
    made: Any = None
    asyncio.run(scenario())


def test_it_saves_by_itself_a_while_after_it_has_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SAVE_S", 0.01)
    merged = asyncio.Event()

    class Told(StateFile):
        def merge(self, *args: Any) -> Any:
            found = super().merge(*args)
            if args[0]:
                loop.call_soon_threadsafe(merged.set)
            return found

    async def scenario() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        made = learner(file=Told(tmp_path / "f.json"))
        await saved(made)
        made.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
        await asyncio.wait_for(merged.wait(), 20)
        await saved(made)

    loop: Any = None
    asyncio.run(scenario())
    assert (tmp_path / "f.json").exists()


def test_where_nothing_can_be_saved_it_learns_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "taken").write_text("a file")

    async def scenario() -> None:
        made = learner(file=StateFile(tmp_path / "taken" / "f.json"))
        made.learn(Feedback(request_id="r", loss=1.0, variant="a"), "")
        with caplog.at_level(logging.WARNING):
            await saved(made)
        assert made.shares("")["a"] < 0.5
        assert made._unsaved == {"": {"a": pytest.approx(-0.2)}}

    asyncio.run(scenario())
    assert "could not be saved" in caplog.text
