from __future__ import annotations

import random
from collections import OrderedDict
from typing import Any

from faas.engine.clock_cache import ENTRY_BYTES, ClockCache

SIZE = 100
COST = SIZE + ENTRY_BYTES


def key(number: int, scope: str = "v1") -> tuple[str, bytes]:
    return scope, number.to_bytes(4, "big")


def keep(cache: ClockCache[object], number: int, size: int = SIZE, scope: str = "v1") -> None:
    computation = object()
    cache.begin(key(number, scope), computation)
    cache.complete(key(number, scope), computation, bytes(size))


def kept(cache: ClockCache[object], numbers: range) -> set[int]:
    """Which are there, without touching any."""
    return {number for number in numbers if key(number) in cache._ring}


def test_c3_what_was_touched_survives_a_scan_that_first_in_first_out_would_not():
    cache: ClockCache[object] = ClockCache(10 * COST)
    for number in range(10):
        keep(cache, number)
    for number in (0, 1, 2):  # the oldest: first in, first out would take them first
        assert cache.find(key(number)) is not None
    for number in range(10, 17):
        keep(cache, number)
    assert kept(cache, range(17)) == {0, 1, 2, *range(10, 17)}


def test_c3_a_second_chance_is_one_chance():
    cache: ClockCache[object] = ClockCache(3 * COST)
    for number in range(3):
        keep(cache, number)
    cache.find(key(0))
    seen = []
    for number in range(3, 6):
        keep(cache, number)
        seen.append(kept(cache, range(6)))
    assert seen == [{0, 2, 3}, {0, 3, 4}, {3, 4, 5}]


def test_c4_the_budget_is_never_exceeded():
    rng = random.Random(1)
    cache: ClockCache[object] = ClockCache(20_000)
    sizes: dict[int, int] = {}
    for _ in range(5_000):
        number = rng.randrange(200)
        if rng.random() < 0.5:
            cache.find(key(number))
            continue
        sizes[number] = rng.choice((0, 10, 500, 5_000, 30_000))
        keep(cache, number, sizes[number])
        assert cache.num_bytes <= cache.max_bytes
        assert cache.num_bytes == sum(sizes[held] + ENTRY_BYTES for held in kept(cache, range(200)))


def test_what_does_not_fit_at_all_is_not_kept_and_costs_nothing_else_its_place():
    cache: ClockCache[object] = ClockCache(3 * COST)
    keep(cache, 0)
    keep(cache, 1)
    keep(cache, 2, size=3 * COST)
    assert kept(cache, range(3)) == {0, 1}
    assert cache.under_way(key(2)) is None


def test_what_is_under_way_is_found_and_takes_no_room():
    cache: ClockCache[object] = ClockCache(COST)
    first, second = object(), object()
    cache.begin(key(0), first)
    keep(cache, 1)
    assert cache.under_way(key(0)) is first
    assert cache.num_bytes == COST
    cache.begin(key(0), second)  # computed again: the first one has no say any more
    cache.abandon(key(0), first)
    assert cache.under_way(key(0)) is second
    cache.complete(key(0), second, b"answer")
    assert cache.under_way(key(0)) is None
    assert cache.find(key(0)) == b"answer"


def test_no_answer_to_keep_ends_a_computation():
    cache: ClockCache[object] = ClockCache(COST)
    computation = object()
    cache.begin(key(0), computation)
    cache.complete(key(0), computation, None)
    assert cache.under_way(key(0)) is None
    assert cache.find(key(0)) is None
    assert cache.num_bytes == 0


def test_a_scope_goes_alone():
    cache: ClockCache[object] = ClockCache(10 * COST)
    keep(cache, 0, scope="v1")
    keep(cache, 0, scope="v2")
    cache.drop("v1")
    assert cache.find(key(0, "v1")) is None
    assert cache.find(key(0, "v2")) is not None
    assert cache.num_bytes == COST


class Watched(OrderedDict[Any, Any]):
    """A ring that counts how often the hand passes an entry."""

    num_passed = 0

    def move_to_end(self, key: Any, last: bool = True) -> None:
        self.num_passed += 1
        super().move_to_end(key, last)


def test_ca_01_misses_do_no_more_work_as_the_cache_fills():
    cache: ClockCache[object] = ClockCache(1_000 * COST)
    cache._ring = ring = Watched()
    num_touched = 0
    for number in range(20_000):
        assert cache.find(key(number)) is None
        keep(cache, number)
        if number % 7 == 0:
            num_touched += cache.find(key(number)) is not None
    assert len(cache) == 1_000
    assert 0 < ring.num_passed <= num_touched
