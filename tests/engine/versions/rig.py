"""Versions without files: a source that a test fills, states that it makes up, and a keeper of both."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

from faas import Batching, Versions, inference_function
from faas.clock import monotonic
from faas.engine.assembly import Shared
from faas.engine.thread import ModelThread
from faas.engine.versions import plan
from faas.engine.versions.keeper import Keeper
from faas.engine.versions.lanes import Asked, VersionedCall
from faas.engine.versions.lifecycle import Entry
from faas.engine.versions.plan import Wishes
from faas.engine.versions.source import Look, SourceError
from faas.engine.versions.states import State
from faas.engine.versions.supply import Brought, Supply
from faas.function import Function
from faas.handler import Handler
from faas.messages import Context

LONG_S = 20.0


class Weights:
    """What a version holds in memory: a test can see when it is gone."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.itself = self  # nothing but a collection frees it


class Numbered:
    """A handler whose answers say which version they are of. A test can hold a version's load, and its answers."""

    def setup(self) -> None:
        raise AssertionError("a version's state is frozen")

    def predict(self, xs: list[int]) -> list[int]:
        hold = self.bench.held.get(self.weights.number)
        if hold is not None and self.bench.only in (None, *xs):
            self.bench.entered.set()
            assert hold.wait(LONG_S)
        return [self.weights.number for _ in xs]

    def after_thaw(self) -> None:
        self.bench.arrive(self.weights.number)

    def teardown(self) -> None:
        self.bench.torn_down.append(self.weights.number)
        self.bench.note_end(self.weights.number)


class FakeSource:
    """A source that holds what a test says."""

    title = "the test's"

    def __init__(self) -> None:
        self.places: dict[int, str] = {}
        self.file: bytes | None = None
        self.stamps: dict[int, int] = {}
        self.warnings: tuple[str, ...] = ()
        self.is_gone = False
        self.num_looks = 0

    def look(self) -> Look:
        self.num_looks += 1
        if self.is_gone:
            raise SourceError("the test's is not there")
        return Look(dict(self.places), self.file, self.warnings, dict(self.stamps))

    def write(self, content: bytes) -> None:
        self.file = content


class Bench(Supply):
    """The versions of a test: loads can be held, and fail."""

    def __init__(self, function: Function, *numbers: int) -> None:
        self.there = FakeSource()
        super().__init__(function, self.there, thaw=None, manifest=None)  # type: ignore[arg-type]
        self.put(*numbers)
        self.held: dict[int, threading.Event] = {}
        self.only: int | None = None  # the input that is held, where not all are
        self.entered = threading.Event()
        self.loading: dict[int, threading.Event] = {}
        self.broken: dict[int, str] = {}
        self.sizes: dict[int, int] = {}
        self.torn_down: list[int] = []
        self.ended_on: dict[int, list[threading.Thread]] = {}
        self.weights: dict[int, weakref.ref[Weights]] = {}
        self.num_loads: dict[int, int] = {}

    def put(self, *numbers: int) -> None:
        """Have exactly these versions there."""
        self.there.places = {number: f"/{number}" for number in numbers}

    def say(self, **wishes: Any) -> None:
        """Have the file say this."""
        self.there.file = plan.write(Wishes(**wishes))

    def bring(self, place: str, *, background: bool = True) -> Brought:
        number = int(place.removeprefix("/"))
        handler, weights = Handler(self._function), Weights(number)
        self.weights[number] = weakref.ref(weights, lambda _: self.note_end(number))
        handler.restore({"attributes": {"weights": weights, "bench": self}, "globals": {}})
        return Brought(place, handler, 100 * number)

    def arrive(self, number: int) -> None:
        """Called by a version's `after_thaw`, on the thread of its load."""
        self.num_loads[number] = self.num_loads.get(number, 0) + 1
        if number in self.loading:
            assert self.loading[number].wait(LONG_S)
        if number in self.broken:
            raise ValueError(self.broken[number])

    def note_end(self, number: int) -> None:
        """Called where a version is torn down, and where its weights are freed."""
        self.ended_on.setdefault(number, []).append(threading.current_thread())

    def size(self, place: str) -> int:
        return self.sizes[int(place.removeprefix("/"))]

    def is_freed(self, number: int) -> bool:
        """Whether the weights of a version are gone."""
        gc.collect()
        return self.weights[number]() is None


class Kept:
    """A keeper, and what it told."""

    def __init__(self, spec: Versions, numbers: tuple[int, ...], options: dict[str, Any]) -> None:
        function = inference_function(name="numbered", versions=spec, batching=Batching(max_batch_size=8), **options)(
            Numbered
        )
        self.bench = Bench(function, *numbers)
        self.thread = ModelThread()
        self.told: list[tuple[int, str]] = []
        self.watch: Callable[[Entry], None] = lambda _: None
        self._moved = asyncio.Event()
        self.keeper = Keeper(spec, self.bench, Shared(function, self.thread, monotonic), on_step=self._told)
        self.engine = self.keeper.engines["/"]

    def call(self, asked: Asked | None = None) -> VersionedCall:
        made = VersionedCall({"xs": 1}, Context("request", deadline=monotonic() + LONG_S))
        made.asked = asked
        return made

    async def answer(self, version: int | None = None, label: str | None = None) -> int:
        asked = None if version is None and label is None else Asked(version, label)
        answered: int = await self.engine.answer(self.call(asked))
        return answered

    def states(self) -> dict[int, State]:
        return {entry.number: entry.step.state for entry in self.keeper.entries}

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds; it is looked at with each step that a version takes."""
        async with asyncio.timeout(LONG_S):
            while not condition():
                await self._moved.wait()

    def _told(self, entry: Entry) -> None:
        self.told.append((entry.number, entry.step.state.name))
        self.watch(entry)
        moved, self._moved = self._moved, asyncio.Event()
        asyncio.get_running_loop().call_soon(moved.set)


@contextlib.asynccontextmanager
async def keeping(
    *numbers: int, spec: Versions | None = None, start: bool = True, **options: Any
) -> AsyncIterator[Kept]:
    """A keeper of these versions, which is closed whatever happens."""
    kept = Kept(spec or Versions(poll_s=0, retry_s=-1, load_retries=0), numbers, options)
    try:
        if start:
            await kept.keeper.start()
        yield kept
    finally:
        for event in (*kept.bench.held.values(), *kept.bench.loading.values()):
            event.set()
        await kept.keeper.close()
        for engine in kept.keeper.engines.values():
            await engine.close()
        assert await kept.thread.close(LONG_S)
        gc.unfreeze()
