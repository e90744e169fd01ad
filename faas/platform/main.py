"""The one-box platform: functions made ready, a warm pool, an activator in front, a control loop for each revision."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
from starlette.routing import Route

from faas.address import Record, record_path
from faas.errors import PlatformError, SettingError, TargetError
from faas.platform import counted, foresight, gate, home, limits, place_control, places, versions_control
from faas.platform.activator import Activator
from faas.platform.clients import ActivatorSettings
from faas.platform.control import ControlServer
from faas.platform.functions import Functions
from faas.platform.guard import raise_descriptors
from faas.platform.hosted import Hosted
from faas.platform.launcher import Launcher
from faas.platform.operations import Operations
from faas.platform.page.access import Access, is_loopback
from faas.platform.page.history import History
from faas.platform.page.server import PageServer
from faas.platform.places import Place
from faas.platform.search import Search
from faas.platform.syncing import Sync
from faas.platform.versioning import Versioning
from faas.platform.workplace import Progress, Workplace
from faas.preparation import Preparation, Preparations
from faas.prepare import prepare_each
from faas.settings import Settings
from faas.signals import stop_signals
from warmpool.pool import WarmPool

CONTROL_FILE = "control.sock"


class Platform:
    """A running platform. Made on a running loop; `run` it to its end."""

    def __init__(
        self,
        settings: Settings,
        store: Path,
        progress: Progress,
        *,
        place: Place | None = None,
        token: str | None = None,
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._store = store
        self._pool = WarmPool()
        self._folder = home.sockets_folder(settings)
        self._inner = self._folder / "platform"
        launcher = Launcher(self._pool, self._folder, platform_socket=self._inner)
        self._history = History()
        self._functions = Functions(
            Workplace(settings, Preparations(store), self._pool, launcher, progress, self._observe)
        )
        self._versioning = Versioning(launcher.follow)
        self._sync = None if place is None else Sync(place, self._functions, store, progress)
        self._token = token
        last_descriptor = limits.last_for_clients(raise_descriptors())
        self._activator = Activator(self._functions.registry, ActivatorSettings(last_descriptor=last_descriptor))
        self._stopping = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def run(self, targets: list[str], *, host: str, port: int) -> int:
        """Serve the functions of `targets`, and those that were deployed before, until told to stop.

        Returns the exit status.
        """
        try:
            if not await self._unless_stopped(self._bring_up(targets)):
                return 1
            url = await self._listen(host, port)
            operations = Operations(self._functions, self._versioning, self._store, url=url, shut_down=self.shut_down)
            more = self._more_control(operations)
            control = ControlServer(operations, self._settings.run / CONTROL_FILE, more=more)
            page = PageServer(operations, self._history, self._folder / "page", Access(is_loopback(host), self._token))
            self._functions.registry.page = page.capacity
            on_port: list[PageServer | ControlServer] = [page, *self._control_on_port(operations, more)]
            serving = asyncio.gather(control.run(), *(server.run() for server in on_port))
            if await self._unless_stopped(self._functions.warm()):
                self._functions.registry.is_ready = True
                self._announce(url)
                self._follow()
            await self._stopping.wait()
            self._functions.registry.unmount()
            for server in on_port:
                server.stop()  # a stream of theirs would hold up the end
            await self._bring_down()
            control.stop()
            await serving
        finally:
            if self._following is not None:
                self._following.cancel()
            self._functions.cancel()
            await self._pool.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            for left in (record_path(self._settings), self._settings.run / home.SOCKETS_LINK):
                with contextlib.suppress(OSError):
                    left.unlink()
        return 0

    def shut_down(self) -> None:
        """Begin to drain; a second time, end at once."""
        if self._stopping.is_set():
            os._exit(1)
        self._stopping.set()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do `work`, and cancel it when the platform is to stop first. Returns whether it was done."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            stopped.cancel()
            task.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    def _observe(self, hosted: Hosted) -> None:
        self._history.observe(hosted.name, hosted.loops, hosted.past)

    async def _bring_up(self, targets: list[str]) -> None:
        """Bring back what was deployed, and make the functions of targets ready.

        A target that cannot be made ready is named, and does not keep the others from being served.
        """
        again = await self._functions.restore()
        errors: list[TargetError] = []
        added: dict[str, Preparation] = {}
        for target in [*again, *targets]:
            try:
                prepared = await prepare_each(target, self._store, progress=self._progress)
            except TargetError as error:
                errors.append(error)
                self._progress(str(error))
                continue
            for name, failure in prepared.failed.items():
                errors.append(failure)
                self._progress(f"{name} is not served as it is now: {failure}")
                self._functions.fail(name, str(failure).splitlines()[0])
            for preparation in prepared.ready:
                _refuse_equal_names(added.get(preparation.name), preparation)
                added[preparation.name] = preparation
                self._functions.add(preparation)
                foresight.tell(preparation.description, self._progress)
        if errors and not self._functions.can_serve:
            raise errors[0]
        if self._sync is not None:
            await self._sync.once()
        self._functions.begin()

    async def _listen(self, host: str, port: int) -> str:
        """Take calls from now on; those for a function whose zygote is not ready yet wait for it. Returns the URL."""
        try:
            bound = await self._activator.listen(host, port)
        except OSError as error:
            raise PlatformError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        inner.bind(str(self._inner))
        await self._activator.listen_on(inner)
        return f"http://{f'[{host}]' if ':' in host else host}:{bound}"

    def _control_on_port(self, operations: Operations, more: list[Route]) -> list[ControlServer]:
        """Have the control interface on the platform's port for callers with the token; without one it is not there."""
        if self._token is None:
            return []
        path = self._folder / "control"
        self._functions.registry.mount(gate.PREFIX, str(path))
        return [ControlServer(operations, path, token=self._token, more=more)]

    def _more_control(self, operations: Operations) -> list[Route]:
        routes = versions_control.routes(self._versioning, self._functions.get, lambda: self._functions)
        routes.append(counted.route(self._functions.get))
        if self._sync is not None:
            routes += place_control.routes(str(self._sync.place), self._sync.seek, operations.of_bundle)
        return routes

    def _follow(self) -> None:
        """Follow the changes of the place of bundles from now on."""
        if self._sync is not None:
            self._sync.is_serving = True
            self._functions.registry.search = Search(self._sync.seek)
            self._following = asyncio.ensure_future(self._sync.run())

    def _announce(self, url: str) -> None:
        record = Record(os.getpid(), url, str(self._settings.run / CONTROL_FILE))
        path = record_path(self._settings)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(record))
        temporary.replace(path)
        for hosted in self._functions:
            if hosted.failure is None or hosted.next() is not None:  # who has nothing to answer with was told of
                self._progress(f"{hosted.name} is at {url}/f/{hosted.name}/")
        if not list(self._functions) and self._sync is None:
            self._progress(f"no functions yet at {url}; faas deploy --local TARGET adds one")
        self._progress(f"the page is at {url}/-/")

    async def _bring_down(self) -> None:
        """Answer what is under way, then end the instances.

        What a proxy sends that is slow to hear of the end is answered, too.
        """
        self._functions.registry.is_ready = False
        await asyncio.sleep(self._settings.lame_duck_s or 0.0)
        if self._following is not None:
            self._following.cancel()
        if self._functions.registry.search is not None:
            self._functions.registry.search.close()
        grace_s = self._functions.grace_s
        await self._activator.drain(grace_s)
        await self._functions.stop(grace_s)


async def run(
    targets: list[str],
    *,
    host: str,
    port: int,
    settings: Settings,
    store: Path | None = None,
    functions: str | None = None,
    token: str | None = None,
    progress: Progress,
) -> int:
    """Be the platform until SIGTERM, SIGINT or `faas down`. Returns the exit status.

    `functions` is a folder, or a prefix in S3, whose bundles are served and followed; with a `token` the control
    interface is on the port too.

    Raises:
        SettingError: there is no such folder, or the token is too short.
        TargetError: a target cannot be made ready.
        PlatformError: another platform runs on this `FAAS_HOME`, or the port is taken.
    """
    place = places.find(functions) if functions is not None else None
    token = gate.check_token(token) if token is not None else None
    with home.alone(settings):
        platform = Platform(settings, store or settings.snapshots, progress, place=place, token=token)
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, platform.shut_down)
        return await platform.run(targets, host=host, port=port)


def _refuse_equal_names(other: Preparation | None, preparation: Preparation) -> None:
    if other is not None and other.description.target != preparation.description.target:
        raise SettingError(
            f"two functions are called {preparation.name!r}: {other.description.target} and "
            f"{preparation.description.target}; give one of them another name=..."
        )
