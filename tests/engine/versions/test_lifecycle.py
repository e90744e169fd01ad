from __future__ import annotations

import math

from faas.engine.versions.lifecycle import MAX_ENDED, Entry, Lifecycle
from faas.engine.versions.retries import Retries
from faas.engine.versions.states import Step
from faas.engine.versions.transitions import Load, Unload, resource_preserving


def made(**options: object) -> Lifecycle:
    return Lifecycle(Retries(num=2, interval_s=60.0), **options)  # type: ignore[arg-type]


def aspire(life: Lifecycle, *numbers: int) -> None:
    life.aspire({number: f"/{number}" for number in numbers})


def loaded(life: Lifecycle, *numbers: int) -> None:
    for number in numbers:
        life.move(number, Step.LOADING)
        life.move(number, Step.READY)


def steps(life: Lifecycle) -> dict[int, Step]:
    return {entry.number: entry.step for entry in life.entries}


def test_l5_each_aspiration_replaces_the_one_before():
    life = made()
    aspire(life, 1, 2)
    loaded(life, 1, 2)
    aspire(life, 2, 3)
    assert life.next(0) == Unload(1)
    life.move(1, Step.QUIESCING)
    assert life.next(0) == Load(3)


def test_l5_nothing_aspired_unloads_all():
    life = made()
    aspire(life, 1, 2)
    loaded(life, 1, 2)
    aspire(life)
    assert life.next(0) == Unload(1)
    life.move(1, Step.QUIESCING)
    assert life.next(0) == Unload(2)


def test_l5_what_stays_aspired_is_not_unloaded():
    life = made()
    aspire(life, 1)
    loaded(life, 1)
    for _ in range(3):
        aspire(life, 1)
        assert life.next(0) is None
    assert life.is_settled


def test_l8_back_to_a_smaller_number():
    life = made()
    aspire(life, 2)
    loaded(life, 2)
    aspire(life, 1)
    assert life.next(0) == Load(1)
    loaded(life, 1)
    assert life.next(0) == Unload(2)


def test_l11_a_load_that_fails_is_tried_again_so_many_times():
    life = made()
    aspire(life, 1)
    for now, number_of_try in ((0.0, 1), (60.0, 2)):
        assert life.next(now) == Load(1)
        life.move(1, Step.LOADING)
        life.failed(1, f"try {number_of_try}", now)
        assert steps(life) == {1: Step.RETRYING}
        assert life.next(now + 59.9) is None
        assert life.next_try_at == now + 60.0
        assert life.is_settled
    assert life.next(120.0) == Load(1)
    life.move(1, Step.LOADING)
    life.failed(1, "try 3", 120.0)
    assert steps(life) == {1: Step.ERROR}
    assert life.get(1).reason == "try 3"
    assert life.next(math.inf) is None
    assert life.next_try_at == math.inf


def test_l11_a_load_that_is_no_longer_wanted_is_not_tried_again():
    life = made()
    aspire(life, 1, 2)
    life.move(2, Step.LOADING)
    life.failed(2, "broken", 0.0)
    aspire(life, 1)
    assert steps(life)[2] is Step.DISABLED
    assert life.next(1000.0) == Load(1)


def test_l11_one_that_fails_after_it_was_given_up_is_not_tried_again():
    life = made()
    aspire(life, 1)
    life.move(1, Step.LOADING)
    aspire(life)
    life.failed(1, "broken", 0.0)
    assert steps(life) == {1: Step.ERROR}
    assert life.next(1000.0) is None


def test_l11_the_old_one_serves_on_and_the_failure_stays_to_be_seen():
    life = made()
    aspire(life, 1)
    loaded(life, 1)
    aspire(life, 2)
    for now in (0.0, 60.0, 120.0):
        assert life.next(now) == Load(2)
        life.move(2, Step.LOADING)
        life.failed(2, "broken", now, code="RESOURCE_EXHAUSTED")
    assert life.next(180.0) is None
    assert steps(life) == {1: Step.READY, 2: Step.ERROR}
    assert (life.get(2).reason, life.get(2).code) == ("broken", "RESOURCE_EXHAUSTED")


def test_l11_without_a_wait_the_next_try_is_at_once():
    life = Lifecycle(Retries(num=1, interval_s=-1.0))
    aspire(life, 1)
    life.move(1, Step.LOADING)
    life.failed(1, "broken", 7.0)
    assert life.next(7.0) == Load(1)


def test_a_load_that_succeeds_in_the_end_has_no_reason_left():
    life = made()
    aspire(life, 1)
    life.move(1, Step.LOADING)
    life.failed(1, "broken", 0.0)
    loaded(life, 1)
    assert (life.get(1).reason, life.get(1).code, life.get(1).num_failures) == (None, "OK", 0)


def test_l11_whoever_asks_for_a_version_has_it_tried_again():
    life = made()
    aspire(life, 1)
    for now in (0.0, 60.0, 120.0):
        life.move(1, Step.LOADING)
        life.failed(1, "broken", now)
    life.try_again(1)
    assert (life.next(121.0), life.get(1).num_failures) == (Load(1), 0)
    loaded(life, 1)
    life.try_again(1)
    assert steps(life) == {1: Step.READY}
    aspire(life)
    life.try_again(1)
    life.try_again(2)
    assert life.next(122.0) == Unload(1)


def test_l13_an_unload_goes_before_a_load():
    life = made()
    aspire(life, 1, 2)
    loaded(life, 1, 2)
    aspire(life, 2, 3)
    assert life.next(0) == Unload(1)
    life.move(1, Step.QUIESCING)
    assert life.next(0, may_load=False) is None
    assert life.next(0) == Load(3)


def test_l14_aspired_again_while_it_unloads_it_is_unloaded_and_then_loaded():
    life = made()
    aspire(life, 1)
    loaded(life, 1)
    aspire(life)
    life.move(1, Step.QUIESCING)
    aspire(life, 1)
    assert life.next(0) is None
    life.move(1, Step.UNLOADING)
    assert life.next(0) is None
    life.move(1, Step.DISABLED)
    assert steps(life) == {1: Step.NEW}
    assert life.next(0) == Load(1)


def test_l14_one_that_failed_is_loaded_anew():
    life = made()
    aspire(life, 1)
    for now in (0.0, 60.0, 120.0):
        life.move(1, Step.LOADING)
        life.failed(1, "broken", now)
    aspire(life)
    assert steps(life) == {1: Step.ERROR}
    aspire(life, 1)
    assert steps(life) == {1: Step.NEW}
    assert life.get(1).num_failures == 0
    assert life.next(121.0) == Load(1)


def test_l14_one_that_was_never_loaded_is_loaded_after_all():
    life = made()
    aspire(life, 1)
    aspire(life)
    assert steps(life) == {1: Step.DISABLED}
    aspire(life, 1)
    assert life.next(0) == Load(1)


def test_another_snapshot_under_the_same_number_is_another_version():
    life = made()
    aspire(life, 1)
    loaded(life, 1)
    life.aspire({1: "/elsewhere"})
    assert life.next(0) == Unload(1)
    life.move(1, Step.QUIESCING)
    life.move(1, Step.DISABLED)
    assert (life.get(1).step, life.get(1).place) == (Step.NEW, "/elsewhere")


def test_another_snapshot_in_place_of_one_that_failed_is_loaded():
    life = made()
    aspire(life, 1)
    for now in (0.0, 60.0, 120.0):
        life.move(1, Step.LOADING)
        life.failed(1, "broken", now)
    life.aspire({1: "/mended"})
    assert life.next(121.0) == Load(1)
    assert life.get(1).place == "/mended"


def test_it_is_settled_once_nothing_is_under_way():
    life = made()
    assert life.is_settled
    aspire(life, 1)
    assert not life.is_settled
    life.move(1, Step.REQUESTED)
    life.move(1, Step.LOADING)
    assert not life.is_settled
    life.move(1, Step.READY)
    assert life.is_settled
    aspire(life)
    life.move(1, Step.QUIESCING)
    assert not life.is_settled
    life.move(1, Step.DISABLED)
    assert life.is_settled


def test_every_step_is_told():
    told: list[tuple[int, Step]] = []
    life = made(changed=lambda entry: told.append((entry.number, entry.step)))
    aspire(life, 1)
    loaded(life, 1)
    aspire(life)
    life.move(1, Step.QUIESCING)
    life.move(1, Step.UNLOADING)
    life.move(1, Step.DISABLED)
    taken = [Step.NEW, Step.LOADING, Step.READY, Step.QUIESCING, Step.UNLOADING, Step.DISABLED]
    assert told == [(1, step) for step in taken]


def test_those_that_are_gone_are_remembered_for_a_while():
    life = made()
    for number in range(MAX_ENDED + 10):
        aspire(life, number)
        loaded(life, number)
        aspire(life)
        life.move(number, Step.QUIESCING)
        life.move(number, Step.DISABLED)
    aspire(life)
    assert len(life.entries) == MAX_ENDED


def test_the_rule_can_be_another():
    life = made()
    life.rule = resource_preserving
    aspire(life, 1)
    loaded(life, 1)
    aspire(life, 2)
    assert life.next(0) == Unload(1)


def test_the_entries_are_in_the_order_of_their_numbers():
    life = made()
    aspire(life, 2, 10, 1)
    assert [entry.number for entry in life.entries] == [10, 2, 1]
    assert isinstance(life.entries[0], Entry)
    assert life.get(7) is None
