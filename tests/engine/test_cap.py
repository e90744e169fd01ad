"""Memory that does not suffice: the cap of later batches, alone and in an engine."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from faas.engine.cap import PATIENCE, Cap
from faas.engine.rows import Rows
from faas.errors import HandlerError
from faas.spec import Batching

from .conftest import Run
from .rig import call, outcome, outcomes, serving


def test_running_out_of_memory_halves_the_cap_down_to_one() -> None:
    cap, seen = Cap(32), []
    for _ in range(7):
        cap.exhausted(cap.limit)
        seen.append(cap.limit)
    assert seen == [16, 8, 4, 2, 1, 1, 1]


def test_the_size_that_failed_counts_and_not_the_cap() -> None:
    cap = Cap(32)
    cap.exhausted(12)
    assert cap.limit == 6


def test_the_cap_is_a_size_that_batches_are_padded_to() -> None:
    cap = Cap(32, (4, 8, 32))
    cap.exhausted(32)
    assert cap.limit == 8
    cap.exhausted(8)
    assert cap.limit == 4
    cap.exhausted(4)
    assert cap.limit == 4


def test_after_enough_batches_that_went_well_it_is_raised_carefully() -> None:
    cap = Cap(32)
    cap.exhausted(32)
    for _ in range(PATIENCE - 1):
        cap.went_well(16)
    for _ in range(1000):
        cap.went_well(8)  # says nothing of larger ones
    assert cap.limit == 16
    cap.went_well(16)
    assert cap.limit == 18


def test_raised_in_vain_it_returns_to_what_went_well_and_waits_twice_as_long() -> None:
    cap = Cap(32, (8, 16, 32))
    cap.exhausted(32)
    for _ in range(PATIENCE):
        cap.went_well(16)
    assert cap.limit == 32
    cap.exhausted(32)
    assert cap.limit == 16
    for _ in range(2 * PATIENCE - 1):
        cap.went_well(16)
    assert cap.limit == 16
    cap.went_well(16)
    assert cap.limit == 32
    for _ in range(1000):
        cap.went_well(32)
    assert cap.limit == 32


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize("error", [MemoryError(), OutOfMemoryError("CUDA out of memory")])
def test_r5_out_of_memory_halves_once_and_lowers_the_cap(
    run: Run, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            if len(xs) > 4:
                raise error
            return xs

        async with serving(predict, batching=Batching(max_batch_size=8, idle="now")) as engine:
            assert await outcomes(engine, *(call(xs=x) for x in range(8))) == list(range(8))
            assert sizes == [8, 4, 4]
            assert await outcomes(engine, *(call(xs=x) for x in range(16))) == list(range(16))
            assert sizes == [8, 4, 4, 4, 4, 4, 4]

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "memory ran out in a batch of 8; batches hold 4 at most" in caplog.text


def test_r5_what_fails_again_fails_together_and_the_instance_goes_on(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            if len(xs) > 2:
                raise MemoryError("no room")
            return xs

        async with serving(predict, batching=Batching(max_batch_size=8, idle="now")) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in range(8)))
            assert all(isinstance(one, HandlerError) and "4 items together" in str(one) for one in got)
            assert await outcomes(engine, *(call(xs=x) for x in range(8))) == list(range(8))
        assert sizes == [8, 4, 4, 2, 2, 2, 2]

    run(scenario())


def test_r5_padding_counts_and_the_cap_is_padded_to(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            if len(xs) > 4:
                raise MemoryError
            return xs

        batching = Batching(max_batch_size=16, allowed_batch_sizes=(2, 4, 16), idle="now")
        async with serving(predict, batching=batching) as engine:
            assert await outcomes(engine, *(call(xs=x) for x in range(5))) == list(range(5))
            assert sizes == [16, 2, 4]
            assert await outcomes(engine, *(call(xs=x) for x in range(5))) == list(range(5))
        assert sizes == [16, 2, 4, 4, 2]

    run(scenario())


def test_r5_an_item_of_more_rows_than_fit_is_split_at_the_lower_cap(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            if len(xs) > 4:
                raise MemoryError
            return xs

        batching = Batching(max_batch_size=8, rows=True)
        async with serving(predict, batching=batching, form=Rows({})) as engine:
            assert isinstance(await outcome(engine, call(xs=list(range(8)))), MemoryError)
            assert await outcome(engine, call(xs=list(range(8)))) == list(range(8))
        assert sizes == [8, 4, 4]

    run(scenario())


def test_r5_halves_that_are_padded_to_the_size_that_failed_are_cut_again(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            if len(xs) > 8:
                raise MemoryError
            return xs

        batching = Batching(max_batch_size=64, idle="now", allowed_batch_sizes=(1, 8, 64))
        async with serving(predict, batching=batching) as engine:
            assert await outcomes(engine, *(call(xs=x) for x in range(64))) == list(range(64))
            assert sizes == [64] + [8] * 8

    run(scenario())


def test_a_cap_counts_nothing_while_memory_suffices(run: Run) -> None:
    async def scenario() -> None:
        async with serving(lambda xs: xs, batching=Batching(max_batch_size=4)) as engine:
            inmost: Any = engine
            await outcomes(engine, *(call(xs=x) for x in range(20)))
            assert (inmost._strategy._cap, inmost.max_batch_size) == (None, 4)

    run(scenario())
