from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from faas import Batching, Calls, endpoint, inference_function
from faas.errors import StartFailed, Unavailable
from faas.function import Function
from faas.handler import Handler
from faas.runtime import Runtime
from tests.server.answers import echo, problem

pytestmark = pytest.mark.anyio


def made(function: Function, **options: Any) -> Runtime:
    return Runtime(function, Handler(function), **{"version": "1"} | options)


async def test_it_goes_from_starting_to_ready_to_draining():
    runtime = made(echo)
    assert runtime.state == "starting"
    with pytest.raises(Unavailable, match="starting"):
        runtime.admit()
    await runtime.start(runtime.handler.setup)
    assert runtime.state == "ready"
    runtime.admit()
    assert set(runtime.phases) == {"setup"}
    runtime.leave_rotation()
    assert (runtime.state, runtime.is_ready) == ("draining", False)
    runtime.admit()
    await runtime.drain(1)
    with pytest.raises(Unavailable, match="draining"):
        runtime.admit()
    await runtime.close()


async def test_load_runs_on_the_model_thread_and_so_does_everything_else():
    seen: dict[str, str] = {}

    @inference_function
    class Threads:
        def setup(self) -> None:
            seen["setup"] = threading.current_thread().name

        def predict(self, x: int) -> int:
            seen["predict"] = threading.current_thread().name
            return x

        def teardown(self) -> None:
            seen["teardown"] = threading.current_thread().name

    runtime = made(Threads.with_options(warmup=[1]))
    await runtime.start(runtime.handler.setup)
    await runtime.close()
    assert set(seen) == {"setup", "predict", "teardown"}
    assert set(seen.values()) == {"model threads"}


async def test_a_batched_warm_up_is_one_batch():
    sizes: list[int] = []

    @inference_function(batching=Batching(max_batch_size=8), warmup=[1, {"xs": 2}, 3])
    def counted(xs: list[int]) -> list[int]:
        sizes.append(len(xs))
        return xs

    runtime = made(counted)
    await runtime.start(runtime.handler.setup)
    assert sizes == [3]
    assert runtime.phases["warmup"] > 0
    await runtime.close()


async def test_warm_up_of_streams_and_of_one_at_a_time():
    seen: list[int] = []

    @inference_function(warmup=[1, 2])
    def stream(x: int) -> Iterator[int]:
        seen.append(x)
        yield x
        seen.append(-x)

    runtime = made(stream)
    await runtime.start(runtime.handler.setup)
    assert seen == [1, -1, 2, -2]
    await runtime.close()


@pytest.mark.parametrize(("num_spared", "seen"), [(0, [1, 2]), (1, [2]), (2, [])])
async def test_a_warm_up_is_spared_the_first_examples(num_spared, seen):
    ran: list[int] = []

    @inference_function(warmup=[1, 2])
    def noted(x: int) -> int:
        ran.append(x)
        return x

    runtime = made(noted)
    await runtime.start(runtime.handler.setup, num_spared=num_spared)
    assert ran == seen
    assert ("warmup" in runtime.phases) == bool(seen)
    await runtime.close()


@pytest.mark.parametrize(
    ("example", "said"), [("x", r"warmup\[0\] does not fit predict: .*at \$"), (0, "ZeroDivisionError")]
)
async def test_a_warm_up_that_fails_fails_the_start(example, said):
    torn_down: list[bool] = []

    @inference_function
    class Inverse:
        def predict(self, x: int) -> float:
            return 1 / x

        def teardown(self) -> None:
            torn_down.append(True)

    runtime = made(Inverse.with_options(warmup=[example]))
    with pytest.raises(StartFailed, match=said):
        await runtime.start(runtime.handler.setup)
    assert runtime.state == runtime.metrics.state == "failed"
    with pytest.raises(Unavailable, match="failed"):
        runtime.admit()
    await runtime.close()
    assert torn_down == [True], "what setup() opened is closed"


async def test_a_start_that_takes_too_long_says_where_it_was():
    release = threading.Event()
    runtime = made(echo.with_options(calls=Calls(startup_timeout_s=0.05)))
    try:
        with pytest.raises(StartFailed, match=r"(?s)startup_timeout_s=0.05.*release.wait"):
            await runtime.start(lambda: release.wait(20))
        await runtime.close()
    finally:
        release.set()


async def test_a_time_out_inside_setup_is_not_taken_for_the_start_up_limit():
    def load() -> None:
        raise TimeoutError("the mirror does not answer")

    runtime = made(echo)
    with pytest.raises(StartFailed, match="the mirror does not answer"):
        await runtime.start(load)
    await runtime.close()


async def test_recycle_is_asked_for_once(serving):
    asked: list[int] = []
    recycled = echo.with_options(recycle_after=3)
    async with serving(recycled, on_recycle=lambda: asked.append(1)) as served:
        for number in range(5):
            assert asked == ([] if number < 3 else [1])
            await served.post(number)
        assert asked == [1]


async def test_a_thaw_that_measures_itself_is_not_called_setup():
    phases: dict[str, float] = {"fork": 0.01}
    runtime = made(echo)
    runtime.begin("i", phases=phases)

    def thaw() -> None:
        phases["thaw"] = 0.02

    await runtime.start(thaw)
    assert runtime.phases == {"fork": 0.01, "thaw": 0.02}
    await runtime.close()


async def test_to_03_gradients_are_off_in_every_kind_of_handler(serving):
    torch = pytest.importorskip("torch")

    @inference_function
    class Kinds:
        def setup(self) -> None:
            self.model = torch.nn.Linear(1, 1).eval()

        def _on(self) -> bool:
            return bool(torch.is_grad_enabled() or self.model(torch.ones(1)).requires_grad)

        @endpoint("/sync")
        def sync(self, fail: bool) -> bool:
            if fail:
                torch.set_grad_enabled(True)
                raise RuntimeError("as asked")
            return self._on()

        @endpoint("/async")
        async def later(self, fail: bool) -> bool:
            before = self._on()
            await asyncio.sleep(0.001)
            if fail:
                raise RuntimeError("as asked")
            return before or self._on()

        @endpoint("/stream")
        def stream(self, fail: bool) -> Iterator[bool]:
            yield self._on()
            if fail:
                raise RuntimeError("as asked")
            yield self._on()

        @endpoint("/later")
        async def async_stream(self, fail: bool) -> AsyncIterator[bool]:
            yield self._on()
            await asyncio.sleep(0.001)
            yield self._on()

    @inference_function(batching=Batching(max_batch_size=4))
    def batched(xs: list[int]) -> list[bool]:
        return [torch.is_grad_enabled() for _ in xs]

    async with serving(Kinds) as served:
        for path in ("/sync", "/async", "/stream", "/later"):
            for fail in (False, True, False):
                answer = await served.post(fail, path)
                if fail and path != "/later":
                    assert "as asked" in problem(answer, 500)["detail"]
                else:
                    assert answer.status_code == 200, answer.text
                    assert answer.json() == (False if path in ("/sync", "/async") else [False, False])
    async with serving(batched) as served:
        assert (await served.post(1)).json() is False
    async with serving(Kinds.with_options(grad=True)) as served:
        for path in ("/sync", "/async"):
            assert (await served.post(False, path)).json() is True
        assert (await served.post(False, "/stream")).json() == [True, True]


async def test_to_03_a_model_in_training_mode_is_named(serving, caplog):
    torch = pytest.importorskip("torch")

    @inference_function
    class Trains:
        def setup(self) -> None:
            self.model = torch.nn.Dropout()
            self.other = torch.nn.Linear(1, 1).eval()

        def predict(self) -> int:
            return 1

    with caplog.at_level(logging.WARNING):
        async with serving(Trains):
            pass
    assert [r.message for r in caplog.records if "training mode" in r.message] == [
        "self.model is in training mode, so its answers vary: call .eval() in setup()"
    ]
    caplog.clear()
    async with serving(Trains.with_options(grad=True)):
        assert "training mode" not in caplog.text


async def test_model_cpu_time_is_counted(serving):
    @inference_function
    def burn(x: int) -> int:
        return sum(range(200_000))

    async with serving(burn) as served:
        await served.post(1)
        problem(await served.post("x"), 422)
        spent = await served.value("faas_model_cpu_seconds_total")
        assert 0.0005 < spent < 5
