"""Functions that are not known yet, looked for while their requests are held."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from faas.platform import search
from faas.platform.routing import Sought, Target
from faas.platform.search import Search
from faas.platform.wire import LocalAnswer, problem
from tests.platform.stub import OneFunction, StubInstance, platform, until

UNKNOWN = problem(404, "no such function")


class Place:
    """What a search looks at: each look waits until it is let go, and says what `failures` say."""

    def __init__(self, failures: Mapping[str, str] | None = None) -> None:
        self.looks: list[list[str]] = []
        self.failures = dict(failures or {})
        self.go = asyncio.Event()

    async def seek(self, names: Collection[str]) -> Mapping[str, str]:
        self.looks.append(sorted(names))
        await self.go.wait()
        return self.failures


async def test_one_look_serves_all_who_ask_before_it_begins() -> None:
    place = Place()
    found = Search(place.seek)
    first, second, other = found.find("a"), found.find("a"), found.find("b")
    assert first is second
    await until(lambda: len(place.looks) == 1)
    place.go.set()
    assert first is not None
    assert other is not None
    assert await asyncio.gather(first, other) == [None, None]
    assert place.looks == [["a", "b"]]


async def test_who_asks_while_a_look_runs_gets_the_next_one() -> None:
    place = Place()
    found = Search(place.seek, every_s=0.0)
    first = found.find("a")
    await until(lambda: len(place.looks) == 1)
    second = found.find("a")
    assert second is not first
    await until(lambda: len(place.looks) == 2)
    place.go.set()
    assert first is not None
    assert second is not None
    await asyncio.gather(first, second)


async def test_looks_keep_their_distance() -> None:
    place = Place()
    place.go.set()
    found = Search(place.seek, every_s=3600.0)
    first = found.find("a")
    assert first is not None
    await first
    later = [found.find(name) for name in ("a", "b", "c")]
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(place.looks) == 1
    found.close()
    assert [await one for one in later if one is not None] == ["the platform is ending"] * 3
    assert found.find("a") is None


async def test_no_more_wait_than_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_WAITING", 2)
    place = Place()
    found = Search(place.seek)
    first = found.find("a")
    assert found.find("b") is not None
    assert found.find("c") is None
    place.go.set()
    assert first is not None
    await first
    await until(lambda: found.find("c") is not None)
    found.close()


class Lazy(OneFunction):
    """A router whose function is known once it was found."""

    is_known = False
    search: Search

    def route(self, host: bytes, path: bytes, method: bytes, tag: bytes = b"") -> Target | LocalAnswer | Sought:
        if self.is_known:
            return super().route(host, path, method, tag)
        return Sought(lambda: self.search.find("echo"), UNKNOWN)


def lazily(running: object, place: Place) -> Lazy:
    router = Lazy(running.capacity)  # type: ignore[attr-defined]
    router.search = Search(place.seek, every_s=0.0)
    running.activator.clients.router = router  # type: ignore[attr-defined]
    return router


async def test_a_request_for_a_function_that_is_found_is_held_and_forwarded(tmp_path: Path) -> None:
    place = Place()
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        router = lazily(running, place)
        client = await running.client()
        await client.post(b"hello")
        await until(lambda: len(place.looks) == 1)
        router.is_known = True
        place.go.set()
        assert (await client.answer()).body == b"a:hello"
        assert (await client.call(b"again")).status == 200  # the connection is as good as before


async def test_a_function_that_is_not_found_is_looked_for_once_a_request() -> None:
    place = Place()
    place.go.set()
    async with platform() as running:
        lazily(running, place)
        client = await running.client()
        assert (await client.call(b"hello")).status == 404
        assert (await client.call(b"hello")).status == 404
    assert len(place.looks) == 2


async def test_what_kept_a_function_from_being_had_is_told() -> None:
    place = Place({"echo": "the bundle echo is not deployed: it is damaged"})
    place.go.set()
    async with platform() as running:
        lazily(running, place)
        answer = await (await running.client()).call(b"hello")
        assert (answer.status, answer.headers[b"retry-after"]) == (503, b"1")
        assert answer.json()["detail"] == "the bundle echo is not deployed: it is damaged"


async def test_a_deadline_that_passes_while_it_is_looked_for_is_a_504() -> None:
    place = Place()
    async with platform() as running:
        lazily(running, place)
        client = await running.client()
        answer = await client.call(b"hello", b"/f/echo/", b"X-Request-Timeout-Ms: 50")
        assert answer.status == 504
        place.go.set()


async def test_a_client_that_leaves_while_it_is_looked_for_is_forgotten(tmp_path: Path) -> None:
    place = Place()
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        router = lazily(running, place)
        client = await running.client()
        await client.post(b"hello")
        await until(lambda: len(place.looks) == 1)
        client.leave()
        await until(lambda: running.activator.clients.counts.open == 0)
        router.is_known = True
        place.go.set()
        assert (await (await running.client()).call(b"other")).body == b"a:other"
        assert len(instance.calls) == 1
