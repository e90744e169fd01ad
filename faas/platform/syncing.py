"""The functions of a platform, kept in step with a place of bundles: new ones are deployed, those that go are deleted.

A bundle that cannot be deployed is reported, and tried again when it changes; what it held before is still served.
Looks may overlap: one for all that has changed, and those for functions that somebody waits for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from faas import pulled, versions
from faas.errors import FaasError
from faas.platform import bundles
from faas.platform.bundles import BundleError
from faas.platform.control import UnknownFunction
from faas.platform.functions import Functions
from faas.platform.kept import Kept
from faas.platform.places import Place
from faas.preparation import Preparation
from faas.prepare import prepare_each
from snapshot.errors import SnapshotError

Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Look:
    """What one look found: the bundles' names with their signatures. A later look has a larger number."""

    number: int
    found: Mapping[str, str]


@dataclass(frozen=True)
class _Seen:
    """The signature of a bundle when it was last deployed, and the number of the look that found it."""

    signature: str
    look: int


class Sync:
    """Brings what is at `place` to `functions`. `store` is the folder of snapshots."""

    def __init__(self, place: Place, functions: Functions, store: Path, progress: Progress) -> None:
        self.place = place
        self._functions = functions
        self._kept: Kept = functions.kept
        self._store = store
        self._progress = progress
        self._num_looks = 0
        self._seen: dict[str, _Seen] = {}
        self._failures: dict[str, str] = {}
        self._taking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unseen: str | None = None
        self.is_serving = False

    async def run(self) -> None:
        """Follow the place until cancelled."""
        fetching = asyncio.ensure_future(self._fetch_all())
        try:
            async for _ in self.place.changes():
                await self.once()
        finally:
            fetching.cancel()

    async def once(self) -> None:
        """Look at the place and follow its changes; before the platform serves, functions are only added."""
        look = await self._look()
        if look is not None:
            await self._all(look)

    async def seek(self, names: Collection[str]) -> dict[str, str]:
        """Bring the bundles of these names here now, and return why not of those that cannot be brought.

        Where one is not there all is done that is to be done: another bundle may hold that function, and what has gone
        is deleted.
        """
        if not self.is_serving:
            return dict.fromkeys(names, "the platform is starting")
        look = await self._look()
        if look is None:
            return dict.fromkeys(names, f"the functions cannot be looked for: {self._unseen}")
        await asyncio.gather(*(self._bring(name, look) for name in names if name in look.found))
        if any(name not in look.found for name in names):
            await self._all(look)
        return {name: self._failures[name] for name in names if name in self._failures}

    async def _look(self) -> _Look | None:
        self._num_looks += 1
        number = self._num_looks
        try:
            look = _Look(number, await asyncio.to_thread(self.place.look))
        except (OSError, SnapshotError) as error:
            if str(error) != self._unseen:  # once, not with each look
                self._progress(f"the functions cannot be looked for, and stay as they are: {error}")
            self._unseen = str(error)
            return None
        self._unseen = None
        return look

    async def _all(self, look: _Look) -> None:
        for name in look.found:
            await self._bring(name, look)
        for hosted in [one for one in self._functions if one.revisions.bundle is not None]:
            if self._is_gone(str(hosted.revisions.bundle), look):
                await self._delete(hosted.name, f"its bundle {hosted.revisions.bundle} is gone")
        for name in [name for name in self._seen if self._is_gone(name, look)]:
            del self._seen[name]
            self._failures.pop(name, None)

    def _is_gone(self, name: str, look: _Look) -> bool:
        """Whether a bundle is not there any more; one that a later look has brought is."""
        return name not in look.found and (name not in self._seen or self._seen[name].look < look.number)

    async def _bring(self, name: str, look: _Look) -> None:
        """Deploy a bundle, unless it is as it was, or somebody has done so with a later look."""
        async with self._taking[name]:
            seen, signature = self._seen.get(name), look.found[name]
            if seen is not None and (seen.signature == signature or seen.look > look.number):
                return
            failure, is_done = await self._take(name)
            if failure is None:
                self._failures.pop(name, None)
            else:
                self._failures[name] = f"the bundle {name} is not deployed: {failure}"
                self._progress(self._failures[name])
            if is_done:
                self._seen[name] = _Seen(signature, look.number)

    async def _take(self, name: str) -> tuple[str | None, bool]:
        """Deploy a bundle. Returns why it is not, and whether it need not be tried again before it changes."""
        try:
            folder = await asyncio.to_thread(self._kept.take_bundle, lambda into: self.place.copy(name, into))
        except (BundleError, SnapshotError, OSError) as error:
            return str(error), isinstance(error, BundleError)
        try:
            deployed = [await self._deploy(name, one) for one in await self._preparations(name, folder)]
        except (FaasError, SnapshotError) as error:
            return str(error), True
        finally:
            self._kept.release_bundle(folder)
        for hosted in [one for one in self._functions if one.revisions.bundle == name]:
            if deployed and hosted.name not in deployed:
                await self._delete(hosted.name, f"the bundle {name} holds it no more")
        return None, True

    async def _delete(self, name: str, why: str) -> None:
        try:
            await self._functions.delete(name)
        except UnknownFunction:
            return  # another look, or a command, was faster
        except FaasError as error:
            self._progress(f"{name} cannot be deleted: {error}")
        else:
            self._progress(f"{name} is deleted: {why}")

    async def _preparations(self, name: str, folder: Path) -> list[Preparation]:
        target = bundles.read(folder)
        found = bundles.prepared(folder, target)
        if isinstance(found, Preparation):
            return [versions.in_bundle(found, folder)]
        if found is not None:
            self._progress(f"the bundle {name} is made ready here: {found}")
        made = await prepare_each(target, self._store, progress=self._progress)
        for function, failure in made.failed.items():
            self._progress(f"{function} of the bundle {name} is not deployed: {failure}")
            self._functions.fail(function, str(failure).splitlines()[0], bundle=name)
        return made.ready

    async def _fetch_all(self) -> None:
        """Have the snapshots of what was there at the start here before somebody calls; calls go first meanwhile."""
        for hosted in list(self._functions):
            try:
                if hosted.main is not None:
                    await _fetch(hosted.main.preparation)
            except SnapshotError as error:
                self._progress(f"the snapshot of {hosted.name} cannot be fetched ahead: {error}")

    async def _deploy(self, name: str, preparation: Preparation) -> str:
        hosted = self._functions.registry.get(preparation.name)
        latest = None
        if hosted is not None and hosted.revisions.deployments:
            latest = hosted.revisions.latest
            if hosted.revisions.bundle not in (None, name):
                raise BundleError(f"{preparation.name} is a function of the bundle {hosted.revisions.bundle} already")
        if not self.is_serving:
            self._functions.add(preparation, bundle=name)
        elif latest is None or latest.id != preparation.revision:
            await _fetch(preparation)
            await self._functions.deploy(preparation, self._progress, bundle=name)
        return preparation.name


async def _fetch(preparation: Preparation) -> None:
    """Copy a snapshot that is in S3 to this node, so that a wake-up only thaws it. Raises SnapshotError."""
    address = preparation.snapshot
    if address is not None and pulled.is_remote(address):
        await asyncio.to_thread(pulled.fetch, address, preparation.digest)
