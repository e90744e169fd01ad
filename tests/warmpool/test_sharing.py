"""One zygote for functions with nearly the same imports."""

import pytest

from warmpool.environment import Preload
from warmpool.policy import nearest
from warmpool.pool import WarmPool

pytestmark = pytest.mark.anyio

COMMON = tuple(f"module_{number}" for number in range(100))


def preload(payload: bytes) -> Preload:
    return Preload(entry="preloads:keep", payload=payload)


def take(pool, wanted):
    return lambda request: pool.take(wanted, request)


@pytest.mark.parametrize(
    ("wanted", "bases", "expected"),
    [
        (COMMON, [], None),
        (COMMON, [COMMON], 0),
        (COMMON, [COMMON[::-1]], 0),  # a set, whatever the order
        (COMMON, [COMMON[:94]], None),  # six of a hundred are more than hot zygotes shall import each
        (COMMON, [COMMON[:95]], 0),
        (COMMON, [COMMON[:95], COMMON[:99], COMMON[:97]], 1),  # the least to import
        (COMMON[:80], [COMMON], 0),
        (COMMON[:79], [COMMON], None),  # too much that nobody asked for
        (COMMON[:80], [COMMON, COMMON[:90], COMMON[:85]], 2),  # the least beyond
        (COMMON[:80], [COMMON[:79], COMMON], 1),  # rather too much than too little
        ((), [()], 0),
        ((), [COMMON], None),
    ],
)
def test_the_nearest_zygote_is_shared_and_one_too_far_away_is_not(wanted, bases, expected):
    assert nearest(set(wanted), [set(base) for base in bases]) == expected


MANY = (
    *("entries", "preloads", "json", "decimal", "fractions", "statistics", "calendar", "csv", "configparser", "html"),
    *("http.client", "ftplib", "imaplib", "smtplib", "poplib", "sqlite3", "tarfile", "zipfile", "wave", "colorsys"),
)


async def test_hot_zygotes_with_nearly_the_same_imports_have_one_base(environment, run):
    async with WarmPool() as pool:
        first, second = environment(*MANY, preload=preload(b"1")), environment(*MANY[::-1][2:], preload=preload(b"2"))
        zygotes = [await pool.warm(one) for one in (first, second)]
        told = [(await run(take(pool, one), "preloads:tell")).answer for one in (first, second)]
        assert [one["payload"] for one in told] == ["1", "2"]
        assert [one["parent"] for one in told] == [zygote.pid for zygote in zygotes]
        held = {one.environment: one for one in await pool.sizes()}
        assert set(held) == {first, second, first.base}
        assert held[first.base].num_heirs == 2
        await pool.retire(first)
        assert (await run(take(pool, second), "preloads:tell")).answer["payload"] == "2"
        assert {one.environment for one in await pool.sizes()} == {second, first.base}
        await pool.retire(second)
        assert await pool.sizes() == []


async def test_what_the_shared_zygote_lacks_is_imported_once_for_all_workers_of_the_hot_one(environment, run):
    async with WarmPool() as pool:
        first = environment(*MANY, preload=preload(b"1"))
        second = environment(*MANY, "untold", preload=preload(b"2"))
        await pool.warm(first)
        hot = await pool.warm(second)
        assert {one.environment for one in await pool.sizes()} == {first, second, first.base}
        (told,) = [(await run(take(pool, second), "untold:tell_where")).answer]
        assert told == hot.pid
        broken = environment(*MANY, "broken", preload=preload(b"3"))
        assert (await pool.warm(broken)).failed == {"broken": "RuntimeError: no licence found"}


async def test_another_interpreter_or_path_has_a_zygote_of_its_own(environment):
    async with WarmPool() as pool:
        first = environment("entries", preload=preload(b"1"))
        second = environment("entries", preload=preload(b"2"), env=(("A", "1"),))
        for one in (first, second):
            await pool.warm(one)
        assert {one.environment for one in await pool.sizes()} == {first, second, first.base, second.base}
