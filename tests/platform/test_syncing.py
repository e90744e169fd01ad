"""A place of bundles followed: looks that overlap, what is tried again, what is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faas.platform.control import UnknownFunction
from faas.platform.syncing import Sync


class Place:
    """Bundles by name; a look ends when it is let to, with what was there when it began."""

    def __init__(self) -> None:
        self.bundles: dict[str, str] = {}
        self.fails = ""

    def look(self) -> dict[str, str]:
        if self.fails:
            raise OSError(self.fails)
        return dict(self.bundles)

    def copy(self, name: str, folder: Path) -> None:
        raise AssertionError("nothing is copied here")

    async def changes(self) -> AsyncIterator[None]:
        yield


class Functions:
    """Functions that are called as their bundles are."""

    kept: Any = None

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}

    def __iter__(self) -> Any:
        return iter(list(self.there.values()))

    async def delete(self, name: str) -> None:
        await asyncio.sleep(0)
        if self.there.pop(name, None) is None:
            raise UnknownFunction(name)


class Following(Sync):
    """Takes a bundle in as long as `holds` says, and fails as `failures` say."""

    def __init__(self, place: Place, functions: Functions, said: list[str]) -> None:
        super().__init__(place, functions, Path(), said.append)  # type: ignore[arg-type]
        self.functions = functions
        self.taken: list[str] = []
        self.holds: dict[str, asyncio.Event] = {}
        self.failures: dict[str, tuple[str, bool]] = {}
        self.is_serving = True

    async def _take(self, name: str) -> tuple[str | None, bool]:
        self.taken.append(name)
        if name in self.holds:
            await self.holds[name].wait()
        if name in self.failures:
            return self.failures[name]
        self.functions.there[name] = SimpleNamespace(name=name, revisions=SimpleNamespace(bundle=name))
        return None, True


@pytest.fixture
def said() -> list[str]:
    return []


def following(said: list[str], **bundles: str) -> tuple[Place, Following]:
    place = Place()
    place.bundles.update(bundles)
    return place, Following(place, Functions(), said)


async def test_what_is_new_or_has_changed_is_taken_once_and_what_is_gone_is_deleted(said: list[str]) -> None:
    place, sync = following(said, a="1", b="1")
    await sync.once()
    place.bundles["b"] = "2"
    await sync.once()
    del place.bundles["a"]
    await sync.once()
    assert sync.taken == ["a", "b", "b"]
    assert list(sync.functions.there) == ["b"]
    assert said == ["a is deleted: its bundle a is gone"]


async def test_a_function_that_is_sought_does_not_wait_for_other_bundles(said: list[str]) -> None:
    place, sync = following(said, slow="1")
    sync.holds["slow"] = asyncio.Event()
    polling = asyncio.ensure_future(sync.once())
    while not sync.taken:
        await asyncio.sleep(0)
    place.bundles["a"] = "1"
    assert await sync.seek(["a"]) == {}
    assert "a" in sync.functions.there
    sync.holds["slow"].set()
    await polling
    assert sorted(sync.functions.there) == ["a", "slow"], "the older look does not know of a, and lets it be"
    await sync.once()
    assert sync.taken == ["slow", "a"]


async def test_who_seeks_what_is_being_taken_waits_for_it(said: list[str]) -> None:
    _, sync = following(said, a="1")
    sync.holds["a"] = asyncio.Event()
    polling = asyncio.ensure_future(sync.once())
    while not sync.taken:
        await asyncio.sleep(0)
    seeking = asyncio.ensure_future(sync.seek(["a"]))
    done, _ = await asyncio.wait([seeking], timeout=0.05)
    assert not done
    sync.holds["a"].set()
    assert await seeking == {}
    await polling
    assert sync.taken == ["a"]


async def test_a_name_that_no_bundle_has_is_sought_in_all_of_them(said: list[str]) -> None:
    place, sync = following(said, several="1", old="1")
    await sync.once()
    del place.bundles["old"]
    place.bundles["several"] = "2"
    assert await sync.seek(["old"]) == {}
    assert sync.taken == ["several", "old", "several"]
    assert list(sync.functions.there) == ["several"]


@pytest.mark.parametrize(("is_done", "tries"), [(True, 1), (False, 2)])
async def test_why_a_bundle_cannot_be_had_is_told(said: list[str], is_done: bool, tries: int) -> None:
    place, sync = following(said, a="1")
    sync.failures["a"] = ("it is damaged", is_done)
    why = "the bundle a is not deployed: it is damaged"
    assert await sync.seek(["a"]) == {"a": why}
    assert await sync.seek(["a"]) == {"a": why}, "also where it is not tried again"
    assert sync.taken == ["a"] * tries
    del sync.failures["a"]
    place.bundles["a"] = "2"
    assert await sync.seek(["a"]) == {}
    assert said == [why] * tries


async def test_a_place_that_cannot_be_looked_at_changes_nothing(said: list[str]) -> None:
    place, sync = following(said, a="1")
    await sync.once()
    place.fails = "no route"
    await sync.once()
    assert await sync.seek(["a"]) == {"a": "the functions cannot be looked for: no route"}
    assert list(sync.functions.there) == ["a"]
    assert len(said) == 1


async def test_two_that_find_a_bundle_gone_delete_it_once(said: list[str]) -> None:
    place, sync = following(said, a="1")
    await sync.once()
    place.bundles.clear()
    await asyncio.gather(sync.once(), sync.once())
    assert said == ["a is deleted: its bundle a is gone"]


async def test_before_it_serves_nothing_is_sought(said: list[str]) -> None:
    _, sync = following(said, a="1")
    sync.is_serving = False
    assert await sync.seek(["a"]) == {"a": "the platform is starting"}
    assert sync.taken == []
