import pytest

from warmpool.policy import FIRST_DELAY_S, MAX_DELAY_OF_HOT_S, MAX_DELAY_S, Backoff, delay_s, num_to_park


def test_delays_double_up_to_the_cap():
    assert [delay_s(failures) for failures in range(5)] == [
        0,
        FIRST_DELAY_S,
        2 * FIRST_DELAY_S,
        4 * FIRST_DELAY_S,
        8 * FIRST_DELAY_S,
    ]
    assert delay_s(50) == delay_s(10_000) == MAX_DELAY_S
    assert delay_s(7, MAX_DELAY_OF_HOT_S) == 64 * FIRST_DELAY_S > MAX_DELAY_S
    assert delay_s(10_000, MAX_DELAY_OF_HOT_S) == MAX_DELAY_OF_HOT_S
    assert Backoff(6).after(served=False, now=0, most_s=MAX_DELAY_OF_HOT_S).wait_s(now=0) == 64 * FIRST_DELAY_S


def test_a_zygote_that_served_is_replaced_at_once_and_one_that_did_not_later_and_later():
    backoff = Backoff()
    assert backoff.wait_s(now=100) == 0
    backoff = backoff.after(served=False, now=100)
    assert backoff.wait_s(now=100) == FIRST_DELAY_S
    assert backoff.wait_s(now=100 + FIRST_DELAY_S) == 0
    backoff = backoff.after(served=False, now=200)
    assert backoff.num_failures == 2
    assert backoff.wait_s(now=200) == 2 * FIRST_DELAY_S
    backoff = backoff.after(served=True, now=300)
    assert backoff == Backoff(0, 300)
    assert backoff.wait_s(now=300) == 0
    assert backoff.after(served=True, now=400, not_before=402).wait_s(now=400) == 2
    assert backoff.after(served=True, now=400, not_before=398).wait_s(now=400) == 0


@pytest.mark.parametrize(("num_parked", "buffer", "expected"), [(0, 0, 0), (0, 2, 2), (1, 2, 1), (3, 2, 0)])
def test_the_buffer_is_filled_and_never_overfilled(num_parked, buffer, expected):
    assert num_to_park(num_parked, buffer) == expected
