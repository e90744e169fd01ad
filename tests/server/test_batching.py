"""What batching offers, as callers over HTTP see it."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from faas import Batching, Context, Pad, QueuePolicy, Scaling, Sequences, endpoint, inference_function
from tests.server.answers import problem

pytestmark = pytest.mark.anyio


async def test_ba_06_rows_over_http(serving):
    @inference_function(batching=Batching(max_batch_size=8, rows=True))
    def tens(numbers: list[int]) -> list[int]:
        assert len(numbers) <= 8
        return [10 * number for number in numbers]

    async with serving(tens) as served:
        bodies = [[n, n + 1, n + 2] for n in range(0, 15, 3)] + [list(range(20))]
        got = await asyncio.gather(*(served.post(body) for body in bodies))
        assert [one.json() for one in got] == [[10 * x for x in body] for body in bodies]
        empty = problem(await served.post([]), 422)
        assert "at least one row" in empty["detail"]
        problem(await served.post(5), 422)
        schema = (await served.client.get("/openapi.json")).json()
        assert "array" in str(schema)


async def test_ba_09_lengths_over_http(serving):
    @inference_function(batching=Batching(wait_ms=50, pad=Pad(mask="mask"), buckets=(4, 64)))
    def deviations(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        mean = np.where(mask, x, 0).sum(axis=1) / mask.sum(axis=1)
        return x - mean[:, None]

    async with serving(deviations) as served:
        bodies = [[2, 4], [1] * 50, [5]]
        alone = [(await served.post(body)).json() for body in bodies]
        got = await asyncio.gather(*(served.post(body) for body in bodies))
        assert [one.json() for one in got] == alone == [[-1.0, 1.0], [0.0] * 50, [0.0]]
        told = problem(await served.post([1] * 65), 422)
        assert "at most 64" in told["detail"]
        assert (await served.post({"x": [1, 3], "mask": [True, True]})).status_code == 422


async def test_b4_calls_of_two_endpoints_never_mix(serving):
    sizes: dict[str, list[int]] = {"double": [], "length": []}

    @inference_function(batching=Batching(max_batch_size=8, wait_ms=100, idle="wait"))
    class Two:
        @endpoint("/double")
        def double(self, x: list[int]) -> list[int]:
            sizes["double"].append(len(x))
            return [2 * each for each in x]

        @endpoint("/length")
        def length(self, x: list[str]) -> list[int]:
            sizes["length"].append(len(x))
            return [len(each) for each in x]

    async with serving(Two) as served:
        calls = [(number, "/double") for number in range(3)] + [("a" * number, "/length") for number in range(4)]
        got = await asyncio.gather(*(served.post(*call) for call in calls))
        assert [one.json() for one in got] == [0, 2, 4, 0, 1, 2, 3]
        assert (sum(sizes["double"]), sum(sizes["length"])) == (3, 4)


async def test_d10_sequences_over_http(serving):
    @inference_function(
        scaling=Scaling(max_instances=1), batching=Batching(max_batch_size=4, sequences=Sequences(idle_s=30))
    )
    class Sum:
        def setup(self) -> None:
            self.sums = [0] * 4

        def predict(self, x: list[int], context: list[Context]) -> list[int]:
            for number, one in zip(x, context, strict=True):
                turn = one.sequence
                self.sums[turn.slot] = number + (0 if turn.start else self.sums[turn.slot])
            return [self.sums[one.sequence.slot] for one in context]

    async with serving(Sum) as served:

        async def step(name: str, number: int, **flags: str) -> int:
            headers = {"X-Sequence-Id": name} | {f"X-Sequence-{flag.title()}": value for flag, value in flags.items()}
            return (await served.post(number, headers=headers)).json()

        got = await asyncio.gather(step("a", 1, start="1"), step("b", 10, start="1"))
        assert got == [1, 10]
        assert [await step("a", 2), await step("b", 20, end="1"), await step("a", 3, end="0")] == [3, 30, 6]
        assert (await served.post(5)).json() == 5
        told = problem(await served.post(1, headers={"X-Sequence-Id": "c"}), 422)
        assert "X-Sequence-Start: 1" in told["detail"]
        for bad in (
            {"X-Sequence-Id": "a", "X-Sequence-End": "yes"},
            {"X-Sequence-Id": "x" * 129},
            {"X-Sequence-Id": ""},
        ):
            problem(await served.post(1, headers=bad), 400)


async def test_d3_a_full_level_is_429_and_d4_a_callers_queue_time_out_is_429(serving):
    entered, gate = threading.Event(), threading.Event()
    policy = QueuePolicy(max_queue=1, allow_timeout_override=True)

    @inference_function(batching=Batching(max_batch_size=1, priorities=2, levels={2: policy}))
    def slow(x: list[int]) -> list[int]:
        entered.set()
        assert gate.wait(20)
        return x

    async with serving(slow) as served:
        first = asyncio.create_task(served.post(1))
        assert await asyncio.to_thread(entered.wait, 20)
        low = {"X-Priority": "2"}
        hurried = await served.post(2, headers=low | {"X-Queue-Timeout-Ms": "20"})
        assert "in the queue" in problem(hurried, 429)["detail"]
        waits = asyncio.create_task(served.post(3, headers=low))
        while served.runtime.engines["/"].num_queued == 0:
            await asyncio.sleep(0.001)
        full = await served.post(4, headers=low)
        assert problem(full, 429)["type"].endswith("queue-full")
        assert int(full.headers["retry-after"]) >= 1
        assert await served.value("faas_requests_total", outcome="refused") == 2
        for bad in ("0", "-1", "soon", "nan"):
            problem(await served.post(5, headers={"X-Queue-Timeout-Ms": bad}), 400)
        gate.set()
        assert [(await first).json(), (await waits).json()] == [1, 3]


async def test_d7_instances_over_http_and_a_stop_ends_their_threads(serving):
    together, threads = threading.Barrier(2, timeout=20), set()

    @inference_function(batching=Batching(max_batch_size=1, instances=2))
    def pair(x: list[int]) -> list[int]:
        threads.add(threading.current_thread())
        together.wait()
        return x

    async with serving(pair) as served:
        got = await asyncio.gather(served.post(1), served.post(2))
        assert [one.json() for one in got] == [1, 2]
    assert len(threads) == 2
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
