"""A place of bundles and the functions of a platform, kept the same: what is new is deployed, what goes is deleted.

A bundle that cannot be deployed is named, and tried again when it changes; what it held before goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from faas import versions
from faas.errors import FaasError
from faas.platform import bundles
from faas.platform.bundles import BundleError
from faas.platform.functions import Functions
from faas.platform.kept import Kept
from faas.platform.places import Place
from faas.preparation import Preparation
from faas.prepare import prepare_each
from snapshot.errors import SnapshotError

Progress = Callable[[str], None]


class Sync:
    """Brings what is at `place` to `functions`. `store` is the folder of snapshots."""

    def __init__(self, place: Place, functions: Functions, store: Path, progress: Progress) -> None:
        self._place = place
        self._functions = functions
        self._kept: Kept = functions.kept
        self._store = store
        self._progress = progress
        self._seen: dict[str, str] = {}
        self._unseen: str | None = None
        self.is_serving = False

    async def run(self) -> None:
        """Follow the place until cancelled."""
        async for _ in self._place.changes():
            await self.once()

    async def once(self) -> None:
        """Look at the place and do what is to be done; before the platform serves, functions are only taken in."""
        try:
            found = await asyncio.to_thread(self._place.look)
        except (OSError, SnapshotError) as error:
            if str(error) != self._unseen:  # once, not with each look
                self._progress(f"the functions cannot be looked for, and stay as they are: {error}")
            self._unseen = str(error)
            return
        self._unseen = None
        for name, signature in found.items():
            if self._seen.get(name) != signature and await self._take(name):
                self._seen[name] = signature
        for hosted in [one for one in self._functions if one.revisions.bundle is not None]:
            if hosted.revisions.bundle not in found:
                self._progress(f"{hosted.name} is deleted: its bundle {hosted.revisions.bundle} is gone")
                await self._functions.delete(hosted.name)
        self._seen = {name: signature for name, signature in self._seen.items() if name in found}

    async def _take(self, name: str) -> bool:
        """Deploy a bundle. Returns whether it need not be tried again before it changes."""
        try:
            folder = await asyncio.to_thread(self._kept.take_bundle, lambda into: self._place.copy(name, into))
        except (BundleError, SnapshotError, OSError) as error:
            self._progress(f"the bundle {name} is not deployed: {error}")
            return isinstance(error, BundleError)
        try:
            deployed = [await self._deploy(name, one) for one in await self._preparations(name, folder)]
        except (FaasError, SnapshotError) as error:
            self._progress(f"the bundle {name} is not deployed: {error}")
            return True
        finally:
            self._kept.release_bundle(folder)
        for hosted in [one for one in self._functions if one.revisions.bundle == name]:
            if deployed and hosted.name not in deployed:
                self._progress(f"{hosted.name} is deleted: the bundle {name} holds it no more")
                await self._functions.delete(hosted.name)
        return True

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
            await self._functions.deploy(preparation, self._progress, bundle=name)
        return preparation.name
