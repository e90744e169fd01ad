"""Versions of all instances of a function, changed at once: the instances are made up, the files are not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

import snapshot
from faas.engine.versions import plan
from faas.engine.versions.folder import Folder
from faas.engine.versions.plan import Wishes
from faas.errors import PlatformError
from faas.instance_messages import Follow, Followed
from faas.platform.control import UnknownFunction, build
from faas.platform.instances import Instance, State
from faas.platform.launcher import Launcher
from faas.platform.versioning import Versioning, is_versioned
from faas.platform.versions_control import routes


class Instances:
    """What instances would do: they hold what the file says, but for versions that are broken in them."""

    def __init__(self, base: Path, *numbers: int) -> None:
        self.folder = Folder(base)
        for number in numbers:
            snapshot.freeze({"number": number}, base / str(number))
        self.made = [self._instance("a"), self._instance("b")]
        self.broken: dict[str, set[int]] = {}
        self.gone: set[str] = set()
        self.followed: list[tuple[str, Wishes]] = []
        self.fault: str | None = None
        loop = SimpleNamespace(preparation=SimpleNamespace(versions=str(base)), instances=self.made)
        other = SimpleNamespace(preparation=SimpleNamespace(versions=None), instances=[self._instance("old")])
        self.hosted: Any = SimpleNamespace(name="f", main=loop, loops=[loop, other])

    async def follow(self, made: Any) -> Followed | None:
        look = self.folder.look()
        wishes = plan.read(look.file)
        self.followed.append((made.id, wishes))
        if made.id in self.gone:
            return None
        held = {*wishes.labels.values(), *wishes.also, max(look.places)}
        rows = [self._row(number, made) for number in held]
        return Followed(1, {"versions": rows, "default": wishes.labels.get("stable")}, self.fault)

    @property
    def wishes(self) -> Wishes:
        return plan.read(self.folder.look().file)

    def _row(self, number: int, made: Any) -> dict[str, Any]:
        is_broken = number in self.broken.get(made.id, ())
        return {
            "version": number,
            "state": "LOADING" if is_broken else "AVAILABLE",
            "step": "waits to be loaded again" if is_broken else "ready",
            "reason": "ValueError: no weights" if is_broken else None,
        }

    @staticmethod
    def _instance(name: str) -> Any:
        return SimpleNamespace(id=name, serves=True)


@pytest.fixture
def instances(tmp_path: Path) -> Instances:
    return Instances(tmp_path, 1, 2, 3)


def test_a_promotion_has_the_version_ready_everywhere_before_the_label_moves(instances: Instances):
    async def story() -> None:
        versioning = Versioning(instances.follow)
        found = await versioning.promote(instances.hosted, 1)
        assert found["labels"] == {"stable": 1}
        assert found["versions"] == [3, 2, 1]
        assert sorted(found["instances"]) == ["a", "b"]
        first = [(name, wishes.also, wishes.labels) for name, wishes in instances.followed[:2]]
        assert sorted(first) == [("a", (1,), {}), ("b", (1,), {})]
        second = [(name, wishes.also, wishes.labels) for name, wishes in instances.followed[2:4]]
        assert sorted(second) == [("a", (), {"stable": 1}), ("b", (), {"stable": 1})]

    asyncio.run(story())


def test_one_instance_that_cannot_leaves_everything_as_it_was(instances: Instances):
    async def story() -> None:
        versioning = Versioning(instances.follow)
        await versioning.promote(instances.hosted, 1)
        instances.broken = {"b": {2}}
        with pytest.raises(PlatformError, match=r"version 2 of f does not get ready, .*: b: ValueError: no weights"):
            await versioning.promote(instances.hosted, 2)
        assert instances.wishes == Wishes(labels={"stable": 1}, before=(None,))
        assert instances.followed[-1][1] == instances.wishes
        instances.broken, instances.fault = {}, "versions.json: nonsense"
        with pytest.raises(PlatformError, match=r"a: versions\.json: nonsense"):
            await versioning.promote(instances.hosted, 2)

    asyncio.run(story())


def test_an_instance_that_ends_meanwhile_is_no_hindrance(instances: Instances):
    async def story() -> None:
        instances.gone = {"a"}
        found = await Versioning(instances.follow).promote(instances.hosted, 2, "canary")
        assert (found["labels"], list(found["instances"])) == ({"canary": 2}, ["b"])

    asyncio.run(story())


def test_a_function_at_zero_is_promoted_for_those_that_come(instances: Instances):
    async def story() -> None:
        instances.made.clear()
        versioning = Versioning(instances.follow)
        await versioning.promote(instances.hosted, 1)
        await versioning.promote(instances.hosted, 2)
        assert await versioning.can_roll_back(instances.hosted)
        assert (await versioning.roll_back(instances.hosted))["labels"] == {"stable": 1}
        assert (await versioning.roll_back(instances.hosted))["labels"] == {}
        assert not await versioning.can_roll_back(instances.hosted)
        with pytest.raises(PlatformError, match="none to go back to"):
            await versioning.roll_back(instances.hosted)

    asyncio.run(story())


def test_what_cannot_be_promoted_is_refused(instances: Instances):
    async def story() -> None:
        versioning = Versioning(instances.follow)
        with pytest.raises(PlatformError, match=r"f has no version 9 at .*; it has: 1, 2, 3"):
            await versioning.promote(instances.hosted, 9)
        with pytest.raises(PlatformError, match="'no-label' is no label"):
            await versioning.promote(instances.hosted, 1, "no-label")
        instances.folder.write(b"{")
        with pytest.raises(PlatformError, match="the versions of f cannot be followed"):
            await versioning.promote(instances.hosted, 1)
        instances.hosted.main.preparation.versions = None
        assert not is_versioned(instances.hosted)
        with pytest.raises(PlatformError, match="f runs without versions; faas snapshot create"):
            await versioning.describe(instances.hosted)
        assert not await versioning.can_roll_back(instances.hosted)

    asyncio.run(story())


def test_two_promotions_at_once_are_one_after_the_other(instances: Instances):
    async def story() -> None:
        versioning = Versioning(instances.follow)
        await asyncio.gather(versioning.promote(instances.hosted, 1), versioning.promote(instances.hosted, 2))
        assert instances.wishes.before == (None, 1)
        assert instances.wishes.labels == {"stable": 2}

    asyncio.run(story())


def test_a_change_that_is_given_up_leaves_nothing_half_done(instances: Instances):
    async def story() -> None:
        async def never(made: Any) -> Followed | None:
            await asyncio.Event().wait()
            return None

        promoting = asyncio.ensure_future(Versioning(never).promote(instances.hosted, 1))
        while instances.wishes.also != (1,):
            await asyncio.sleep(0.001)
        promoting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await promoting
        assert instances.wishes == Wishes()

    asyncio.run(story())


def test_over_the_control_interface(instances: Instances):
    def get(name: str) -> Any:
        if name != "f":
            raise UnknownFunction(f"no function {name!r} here")
        return instances.hosted

    async def story() -> None:
        versioning = Versioning(instances.follow)
        app = build(SimpleNamespace(), routes(versioning, get, lambda: [instances.hosted]))  # type: ignore[arg-type]
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://c") as client:
            instances.broken = {"a": {3}, "b": {3}}
            index = (await client.post("/v2/repository/index")).json()
            assert [(row["version"], row["state"], row["reason"]) for row in index] == [
                ("3", "UNAVAILABLE", "ValueError: no weights"),
                ("2", "UNAVAILABLE", "held by no instance"),
                ("1", "UNAVAILABLE", "held by no instance"),
            ]
            promoted = await client.post("/functions/f/versions/label", json={"version": 2})
            assert promoted.json()["labels"] == {"stable": 2}
            index = (await client.post("/v2/repository/index", json={"ready": True})).json()
            assert index == [{"name": "f", "version": "2", "state": "READY", "reason": ""}]
            assert (await client.get("/functions/f/versions")).json()["labels"] == {"stable": 2}
            assert (await client.get("/functions/g/versions")).status_code == 404
            settings = await client.post("/functions/f/versions/settings", json={"policy": "latest", "num": 2})
            assert settings.json()["settings"] == {"policy": "latest", "num": 2}
            again = await client.post("/functions/f/versions/settings", json={"policy": None})
            assert again.json()["settings"] == {"num": 2}
            for wrong in ({"policy": "newest"}, {"num": -1}, {"nom": 1}):
                assert (await client.post("/functions/f/versions/settings", json=wrong)).status_code == 409
            assert (await client.post("/functions/f/versions/label", json={})).status_code == 409
            assert (await client.post("/v2/repository/models/f/unload")).json() == {}
            assert (instances.wishes.mode, instances.wishes.is_loaded) == ("explicit", False)
            assert (await client.post("/v2/repository/models/f/load")).json() == {}
            assert instances.wishes.is_loaded

    asyncio.run(story())


def test_an_instance_is_told_as_soon_as_it_can_hear(tmp_path: Path):
    async def story() -> None:
        launcher = Launcher(None, tmp_path, platform_socket=tmp_path / "p")  # type: ignore[arg-type]
        made = Instance("i", "f", "r", str(tmp_path / "i"), 0.0)
        following = asyncio.ensure_future(launcher.follow(made))
        await asyncio.sleep(0)
        [message] = made.unsaid
        asked = msgspec.json.decode(message, type=Follow)
        launcher._hear(made, Followed(asked.number + 1), lambda _: None)  # of somebody else, who has gone
        assert not following.done()
        launcher._hear(made, Followed(asked.number, {"default": 1}), lambda _: None)
        assert await following == Followed(asked.number, {"default": 1})
        assert made.following == {}
        made.state = State.DRAINING
        assert await launcher.follow(made) is None

    asyncio.run(story())
