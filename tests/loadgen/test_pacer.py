import asyncio
import os
from time import monotonic

import pytest

from loadgen.pacer import Pacer


def test_it_is_never_early() -> None:
    async def wait() -> list[float]:
        early_by = []
        with Pacer() as pacer:
            for step in range(200):
                instant = monotonic() + step * 1e-5
                await pacer.until(instant)
                early_by.append(instant - monotonic())
        return early_by

    assert max(asyncio.run(wait())) <= 0


def test_an_instant_that_has_passed_gives_others_a_turn() -> None:
    async def wait() -> bool:
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)
        with Pacer() as pacer:
            await pacer.until(monotonic() - 1)
        return turn.is_set()

    assert asyncio.run(wait())


def test_it_can_be_set_again_after_a_wait_was_given_up() -> None:
    async def wait() -> float:
        with Pacer() as pacer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pacer.until(monotonic() + 60), 0.01)
            instant = monotonic() + 0.02
            await pacer.until(instant)
            return monotonic() - instant

    assert asyncio.run(wait()) >= 0


def test_it_leaves_no_descriptor() -> None:
    async def wait() -> tuple[set[str], set[str]]:
        before = set(os.listdir("/proc/self/fd"))
        with Pacer() as pacer:
            await pacer.until(monotonic() + 0.001)
        return before, set(os.listdir("/proc/self/fd"))

    before, after = asyncio.run(wait())
    assert after == before
