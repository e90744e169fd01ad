from __future__ import annotations

import asyncio
import gc
import math
import weakref

from faas.clock import monotonic
from faas.engine.deadlines import Deadlines
from faas.messages import Call, Context

from .conftest import Run
from .rig import settled


def due_in(seconds: float) -> Call:
    return Call({}, Context("r", deadline=monotonic() + seconds))


def test_each_expires_in_its_order_and_those_removed_never(run: Run) -> None:
    async def scenario() -> None:
        expired: list[Call] = []
        watch = Deadlines(monotonic, expired.append)
        late, soon, gone, never = due_in(0.04), due_in(0.01), due_in(0.02), due_in(math.inf)
        for call in (late, soon, gone, never):
            watch.add(call)
        watch.remove(gone)
        watch.remove(never)
        await settled(lambda: len(expired) == 2)
        assert expired == [soon, late]

    run(scenario())


def test_a_deadline_that_has_passed_expires_at_once(run: Run) -> None:
    async def scenario() -> None:
        expired: list[Call] = []
        watch = Deadlines(monotonic, expired.append)
        watch.add(due_in(-1.0))
        await settled(lambda: len(expired) == 1)

    run(scenario())


def test_after_closing_nothing_expires(run: Run) -> None:
    async def scenario() -> None:
        expired: list[Call] = []
        watch = Deadlines(monotonic, expired.append)
        watch.add(due_in(0.005))
        watch.close()
        await asyncio.sleep(0.02)
        assert expired == []

    run(scenario())


class Body:
    """Something large that a call carries."""


def test_calls_that_were_removed_are_neither_kept_alive_nor_piled_up(run: Run) -> None:
    async def scenario() -> None:
        watch = Deadlines(monotonic, lambda call: None)
        body = Body()
        seen = weakref.ref(body)
        for at in range(5000):
            call = due_in(60.0)
            if at == 4999:
                call.kwargs["body"] = body
            watch.add(call)
            watch.remove(call)
        del body, call
        gc.collect()
        assert seen() is None
        assert len(watch._heap) < 200
        watch.close()

    run(scenario())


def test_a_call_that_took_the_place_of_a_removed_one_keeps_its_own_deadline(run: Run) -> None:
    async def scenario() -> None:
        expired: list[Call] = []
        watch = Deadlines(monotonic, expired.append)
        call = due_in(0.005)
        watch.add(call)
        watch.remove(call)
        call.context.deadline = monotonic() + 60.0  # as a younger call at the same address would have it
        watch.add(call)
        await asyncio.sleep(0.02)
        assert expired == []
        watch.close()

    run(scenario())
