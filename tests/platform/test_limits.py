import pytest

from faas.platform import limits
from faas.platform.limits import Life, Usage, Verdict

MIB = 2**20
LIMIT = 1000 * MIB

ROLLUP = b"""55d0-7ffd ---p 00000000 00:00 0                          [rollup]
Rss:              900000 kB
Pss:              400000 kB
Pss_Dirty:         90000 kB
Shared_Clean:     500000 kB
Shared_Dirty:     200000 kB
Private_Clean:    100000 kB
Private_Dirty:     50000 kB
Swap:               9000 kB
SwapPss:            3000 kB
"""


@pytest.mark.parametrize(
    ("own_mib", "ready_mib", "life", "verdict"),
    [
        (1001, 0, None, Verdict.END),
        (1001, 0, Life(1.0, 100.0), Verdict.END),
        (1000, 0, None, Verdict.FINE),
        (799, 0, Life(1.0, 100.0), Verdict.FINE),
        (800, 0, Life(1.0, 100.0), Verdict.RENEW),
        (900, 0, Life(1.0, 4.9), Verdict.FINE),
        (900, 0, Life(1.0, 5.0), Verdict.RENEW),
        (950, 900, Life(1.0, 100.0), Verdict.FINE),
        (980, 900, Life(1.0, 100.0), Verdict.RENEW),
    ],
)
def test_what_becomes_of_an_instance_by_its_memory(own_mib, ready_mib, life, verdict):
    assert limits.judge(own_mib * MIB, LIMIT, ready_bytes=ready_mib * MIB, life=life) is verdict


@pytest.mark.parametrize(
    ("anonymous_mib", "before_mib", "looked_s", "is_due"),
    [
        (800, 0, 1e9, True),
        (800, 800, 0.99, False),
        (849, 800, 0.99, False),
        (851, 800, 0.0, True),
        (3000, 3000, 1, True),
    ],
)
def test_a_close_look_is_seldom_unless_it_grows(anonymous_mib, before_mib, looked_s, is_due):
    before_bytes = before_mib * MIB
    assert limits.is_due(anonymous_mib * MIB, LIMIT, before_bytes=before_bytes, looked_s=looked_s) is is_due


def test_what_is_low_is_not_looked_at_closely():
    assert limits.is_low(799 * MIB, LIMIT)
    assert not limits.is_low(800 * MIB, LIMIT)


def test_what_is_shared_or_mapped_from_files_is_not_its_own():
    assert limits.own(ROLLUP) == 53000 * 1024


def test_memory_that_is_no_files():
    assert limits.anonymous(b"3000 1000 400 1 0 2000 0\n", 4096) == 600 * 4096


def test_why_says_both_numbers_and_the_setting():
    why = limits.over_memory(1200 * MIB, LIMIT)
    assert [part for part in ("1200 MiB", "1000 MiB", "Resources(memory=...)") if part not in why] == []


def test_more_than_its_share_of_processors_for_a_second():
    usage = Usage(1.0, cpu_s=5.0, now=100.0)
    assert not usage.is_due(100.9)
    assert usage.is_due(101.0)
    assert not usage.is_over(6.0, 101.0)
    assert usage.is_over(7.2, 102.0)
    assert not usage.is_over(8.25, 103.0), "the ticks of one look are coarse"


@pytest.mark.parametrize(
    ("share", "held", "expected"),
    [
        (1.0, [], (0,)),
        (0.5, [], (0,)),
        (1.0, [(0,)], (1,)),
        (2.0, [(0,), (1,), (0, 2)], (1, 3)),
        (1.5, [(0, 1)], (2, 3)),
        (4.0, [], None),
        (3.5, [], None),
    ],
)
def test_held_to_whole_processors_that_the_fewest_are_held_to(share, held, expected):
    assert limits.held_to(share, {3, 1, 0, 2}, held) == expected


@pytest.mark.parametrize(("num_allowed", "last"), [(1024, 895), (64, 55), (16, 13), (1_048_576, 1_047_551)])
def test_some_descriptors_are_kept_from_clients(num_allowed, last):
    assert limits.last_for_clients(num_allowed) == last
