"""Lengths that items are padded up to."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from faas import inference_function
from faas.engine.buckets import bucket_of
from faas.errors import BadInput, QueueFull
from faas.spec import Batching

from .conftest import Run
from .rig import Gate, call, outcome, outcomes, serving_of


def test_buckets_are_the_next_length_that_holds_an_item() -> None:
    assert [bucket_of(length, (4, 16)) for length in (0, 1, 4, 5, 16, 17)] == [4, 4, 4, 16, 16, None]


def test_items_of_one_bucket_are_joined_and_padded_up_to_it(run: Run) -> None:
    async def scenario() -> None:
        shapes: list[tuple[int, ...]] = []

        def double(x: np.ndarray) -> np.ndarray:
            shapes.append(x.shape)
            return x * 2

        batching = Batching(max_batch_size=4, wait_ms=50, idle="wait", pad=0, buckets=(4, 16))
        function = inference_function(batching=batching)(double)
        async with serving_of(function) as engine:
            lengths = [1, 9, 3, 16, 4, 5, 2, 10]
            got = await outcomes(engine, *(call(x=np.arange(n)) for n in lengths))
            too_long = await outcome(engine, call(x=np.arange(17)))
            assert (engine.num_queued, engine.num_running) == (0, 0)
        assert [one.tolist() for one in got] == [(np.arange(n) * 2).tolist() for n in lengths]
        assert sorted(shapes) == [(4, 4), (4, 16)]
        assert isinstance(too_long, BadInput)
        assert "17 elements; at most 16" in str(too_long)

    run(scenario())


def test_to_02_random_lengths_reach_the_model_in_as_many_shapes_as_there_are_buckets(run: Run) -> None:
    async def scenario() -> None:
        shapes: set[tuple[int, ...]] = set()

        def double(x: torch.Tensor) -> torch.Tensor:
            shapes.add(tuple(x.shape))
            return x * 2

        batching = Batching(max_batch_size=8, allowed_batch_sizes=(1, 4, 8), pad=0, buckets=(128, 512, 1024))
        function = inference_function(batching=batching)(double)
        rng = random.Random(3)
        async with serving_of(function) as engine:
            for _ in range(5):
                lengths = [rng.randint(50, 1000) for _ in range(100)]
                got = await outcomes(engine, *(call(x=torch.ones(n)) for n in lengths))
                assert [len(one) for one in got] == lengths
        assert len(shapes) <= 9

    run(scenario())


def test_the_queues_of_all_buckets_share_a_bound(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def double(x: np.ndarray) -> np.ndarray:
            gate.pass_through()
            return x

        batching = Batching(max_batch_size=1, pad=0, buckets=(4, 16), idle="now")
        function = inference_function(batching=batching)(double)
        async with serving_of(function, max_queue=1) as engine:
            first = call(x=np.arange(3))
            engine.submit(first)
            await gate.entered()
            waits = [call(x=np.arange(3)), call(x=np.arange(9))]
            for one in waits:
                engine.submit(one)
            with pytest.raises(QueueFull):
                engine.submit(call(x=np.arange(9)))
            gate.open()
            assert [len(await one.result()) for one in (first, *waits)] == [3, 3, 9]

    run(scenario())
