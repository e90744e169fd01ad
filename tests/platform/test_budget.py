"""Room for another instance, as plain arithmetic."""

from faas.platform import budget
from faas.platform.budget import Holdings
from faas.platform.eviction import GreedyDual, Idler

MIB, GIB = 2**20, 2**30


def holdings(held_bytes):
    return Holdings(budget_bytes=8 * GIB, held_bytes=held_bytes, num_instances=12, num_zygotes=3)


IDLERS = {"large": Idler(1, 0.1, 900 * MIB), "small": Idler(1, 0.1, 100 * MIB)}


def test_where_there_is_room_nobody_goes():
    dual = GreedyDual()
    assert budget.make_room(holdings(7 * GIB), GIB, IDLERS, dual) == ((), dual)


def test_only_as_many_go_as_are_needed_and_the_clock_moves():
    going, dual = budget.make_room(holdings(8 * GIB), 50 * MIB, IDLERS, GreedyDual())
    assert going == ("large",)
    assert dual.clock > 0


def test_where_all_that_idles_is_not_enough_nobody_goes_in_vain():
    dual = GreedyDual()
    assert budget.make_room(holdings(8 * GIB), 1001 * MIB, IDLERS, dual) == (None, dual)
    assert budget.make_room(holdings(8 * GIB), 1000 * MIB, IDLERS, dual)[0] == ("large", "small")


def test_what_another_takes_is_what_its_like_took_or_its_snapshot_and_some():
    assert budget.needed(500 * MIB, None) == 564 * MIB
    assert budget.needed(500 * MIB, 9 * MIB) == 9 * MIB


def test_the_default_is_a_share_of_the_machine_or_of_the_groups_limit():
    assert budget.default_budget(10 * GIB, None) == 8 * GIB
    assert budget.default_budget(10 * GIB, 5 * GIB) == 4 * GIB
    assert budget.default_budget(10 * GIB, 2**63) == 8 * GIB


def test_a_refusal_names_the_numbers_and_what_to_do():
    told = budget.refusal("embed", holdings(int(7.9 * GIB)), 350 * MIB, 20 * MIB)
    assert told == (
        "no memory for an instance of embed: it needs about 350 MiB, and 7.90 of 8.00 GiB are held by 12 instances and "
        "3 zygotes, of which 20 MiB idle; faas up --memory gives the platform more"
    )
