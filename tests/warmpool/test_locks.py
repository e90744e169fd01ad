"""Locks and forks: one thread at the fork means that no lock can be held by one that is not there afterwards."""

import pytest

pytestmark = pytest.mark.anyio


async def test_locks_that_imports_have_used_are_free_in_every_worker(start, run):
    zygote = await start("locks", "entries")
    assert zygote.hazard is None
    for _ in range(3):
        done = await run(zygote.fork, "locks:use")
        assert (done.worker.how, done.status) == ("fork", 0)
        assert done.answer == [["lock", "rlock", "condition"]] * 3


async def test_a_zygote_with_a_lock_that_another_thread_holds_is_not_forked(start, run):
    zygote = await start("lock_holder", "entries")
    done = await run(zygote.fork, "entries:echo", b"x")
    assert (done.worker.how, done.output) == ("exec", b"x")
    assert "holder" in done.worker.why
