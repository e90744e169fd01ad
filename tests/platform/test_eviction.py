from faas.platform.eviction import GreedyDual, Idler

MIB = 1024 * 1024
SMALL = Idler(num_calls=1, start_s=0.1, num_bytes=10 * MIB)


def test_the_slow_the_small_and_the_popular_stay():
    often = Idler(100, 0.1, 10 * MIB)
    slow = Idler(1, 10.0, 10 * MIB)
    large = Idler(1, 0.1, 1000 * MIB)
    going, _ = GreedyDual().evict({"often": often, "slow": slow, "large": large, "small": SMALL}, 1005 * MIB)
    assert going == ("large", "small")


def test_only_as_much_goes_as_is_needed_and_equals_go_by_name():
    idlers = {"b": SMALL, "a": SMALL, "c": SMALL}
    assert GreedyDual().evict(idlers, 0)[0] == ()
    assert GreedyDual().evict(idlers, 1)[0] == ("a",)
    assert GreedyDual().evict(idlers, 11 * MIB)[0] == ("a", "b")
    assert GreedyDual().evict(idlers, 10**12)[0] == ("a", "b", "c")


def test_the_clock_stands_at_the_last_that_went_so_what_is_long_unused_goes_at_last():
    popular = Idler(1000, 0.1, 10 * MIB)
    state = GreedyDual().used("once popular")
    rounds = 0
    while True:
        rounds += 1
        state = state.used("newcomer")
        going, state = state.evict({"once popular": popular, "newcomer": SMALL}, 1)
        if going == ("once popular",):
            break
        assert rounds < 2000
    assert rounds > 100
    assert state.clock >= state.priority("newcomer", SMALL) - SMALL.start_s


def test_names_that_are_gone_for_good_are_forgotten():
    state = GreedyDual().used("a").used("b").forgotten({"a"})
    assert dict(state.used_at) == {"b": 0.0}
