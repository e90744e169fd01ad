"""Torch's gradients are off in the thread that runs the handler, unless asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import torch

from faas.engine.gradients import set_gradients
from faas.spec import Batching

from .conftest import Run
from .rig import call, events, outcome, serving


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The loop of these tests runs on the test's own thread."""
    before = torch.is_grad_enabled()
    yield
    torch.set_grad_enabled(before)


def look(x: Any) -> Any:
    if x == "raise":
        torch.set_grad_enabled(True)
        raise RuntimeError("left with gradients on")
    return torch.is_grad_enabled()


async def alook(x: Any) -> Any:
    return look(x)


def steps(x: Any) -> Iterator[Any]:
    yield look(x)
    torch.set_grad_enabled(True)
    yield "between"
    yield torch.is_grad_enabled()


async def asteps(x: Any) -> AsyncIterator[Any]:
    for event in steps(x):
        yield event


KINDS = [(look, "plain"), (alook, "async"), (steps, "generator"), (asteps, "async_generator")]


def batched(handler: Any, kind: str) -> Any:
    """The same handler over a batch of one."""
    if kind == "plain":
        return lambda x: [handler(x[0])]
    if kind == "generator":
        return lambda x: ([event] for event in handler(x[0]))

    async def later(x: list[Any]) -> list[Any]:
        return [await handler(x[0])]

    async def each(x: list[Any]) -> AsyncIterator[list[Any]]:
        async for event in handler(x[0]):
            yield [event]

    return later if kind == "async" else each


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize(("handler", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_to_03_grad_is_as_asked_in_every_kind_of_handler(
    run: Run, handler: Any, kind: str, in_batches: bool, grad: bool
) -> None:
    async def scenario() -> None:
        chosen = batched(handler, kind) if in_batches else handler
        async with serving(chosen, kind, Batching(max_batch_size=2) if in_batches else None, grad=grad) as engine:
            for x in ("first", "raise", "after an error", "last"):
                if kind.endswith("generator"):
                    got = await events(engine, call(x=x))
                    if x != "raise":
                        assert got == [grad, "between", grad]
                else:
                    got = await outcome(engine, call(x=x))
                    if x != "raise":
                        assert got is grad
                if x == "raise":
                    assert "left with gradients on" in str(got[0] if isinstance(got, list) else got)

    torch.set_grad_enabled(not grad)
    run(scenario())


def test_two_endpoints_of_one_thread_may_differ(run: Run) -> None:
    from faas.engine.thread import ModelThread

    async def scenario() -> None:
        thread = ModelThread()
        async with serving(look, thread=thread) as off, serving(look, thread=thread, grad=True) as on:
            for _ in range(2):
                assert await outcome(off, call(x=1)) is False
                assert await outcome(on, call(x=1)) is True
        await thread.close()

    run(scenario())


def test_torch_is_never_imported_for_it() -> None:
    code = (
        "import sys; from faas.engine import engine, gradients; gradients.set_gradients(False);"
        "assert 'torch' not in sys.modules, 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_torch_that_is_still_being_imported_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    set_gradients(False)


LATE_IMPORT = """
import asyncio, sys
from faas import inference_function
from faas.handler import Handler
from faas.messages import Call, Context
from faas.runtime import Runtime

def look(x: str) -> bool:
    import torch
    return torch.is_grad_enabled() and torch.ones(1, requires_grad=True).sum().requires_grad

async def look_later(x: str) -> bool:
    return look(x)

async def main(handler, grad):
    function = inference_function(grad=grad)(handler)
    runtime = Runtime(function, Handler(function), version="1")
    runtime.begin("i")
    await runtime.start(lambda: None)
    assert "torch" not in sys.modules
    call = Call({"x": "a"}, Context("r"))
    print(await runtime.engines["/"].answer(call), sum("on_import" in repr(one) for one in sys.meta_path))
    await runtime.close()

asyncio.run(main(globals()[sys.argv[1]], sys.argv[2] == "grad"))
"""


@pytest.mark.parametrize(
    ("handler", "grad", "seen"), [("look", "", "False 0"), ("look_later", "", "False 0"), ("look", "grad", "True 0")]
)
def test_to_03_grad_is_off_already_in_the_call_that_imports_torch(handler: str, grad: str, seen: str) -> None:
    command = [sys.executable, "-c", LATE_IMPORT, handler, grad]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == seen
