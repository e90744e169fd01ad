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
from faas.clock import monotonic
from faas.errors import FaasError, PlatformError, SettingError, TargetError
from faas.platform import counted, foresight, gate, home, limits, place_control, places, rows, versions_control
from faas.platform.activator import Activator
from faas.platform.clients import ActivatorSettings
from faas.platform.control import ControlServer
from faas.platform.functions import Functions
from faas.platform.guard import raise_descriptors
from faas.platform.hosted import Hosted
from faas.platform.instances import State
from faas.platform.launcher import Launcher
from faas.platform.logs import LogFile
from faas.platform.orders import Order, Outcome
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
        self._url = ""

    async def run(self, targets: list[str], *, host: str, port: int) -> int:
        """Serve the functions of `targets`, and those that were deployed before, until told to stop.

        Returns the exit status.
        """
        try:
            if not await self._unless_stopped(self._bring_up(targets)):
                return 1
            await self._listen(host, port)
            control = ControlServer(self, self._settings.run / CONTROL_FILE, more=self._more_control())
            page = PageServer(self, self._history, self._folder / "page", Access(is_loopback(host), self._token))
            self._functions.registry.page = page.capacity
            on_port: list[PageServer | ControlServer] = [page, *self._control_on_port()]
            serving = asyncio.gather(control.run(), *(server.run() for server in on_port))
            if await self._unless_stopped(self._functions.warm()):
                self._functions.registry.is_ready = True
                self._announce()
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
        """Do `work`, but give it up when told to stop before it is done. Returns whether it was done."""
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

    # What the control interface asks.

    def functions(self) -> list[dict[str, Any]]:
        """Return what is known of each function."""
        return [rows.function_row(hosted, self._url) for hosted in self._functions]

    def function(self, name: str) -> dict[str, Any]:
        """Return all that is known of one function. Raises UnknownFunction."""
        return rows.description(self._functions.get(name), self._url)

    def instances(self) -> list[dict[str, Any]]:
        """Return what is known of each instance."""
        now = monotonic()
        return [rows.instance_row(made, now) for loop in self._functions.loops for made in loop.instances]

    def addresses(self, name: str) -> dict[str, str]:
        """Return the sockets of a function's instances that are ready, by their ids. Raises UnknownFunction."""
        loops = self._functions.get(name).loops
        return {made.id: made.address for loop in loops for made in loop.instances if made.state is State.READY}

    def _observe(self, hosted: Hosted) -> None:
        self._history.observe(hosted.name, hosted.loops, hosted.past)

    def log(self, name: str) -> LogFile:
        """Return a function's log. Raises UnknownFunction."""
        return self._functions.get(name).log

    async def scale(self, name: str, num_instances: int) -> dict[str, Any]:
        """Bring a function to a number of instances; returns when those that must go are gone.

        Beside what is known of it, the answer has the number that was `wanted` and the `most` that it may have.
        """
        hosted = await self._functions.scale(name, num_instances)
        most = hosted.main.preparation.description.max_instances if hosted.main is not None else 0
        return rows.function_row(hosted, self._url) | {"wanted": num_instances, "most": most}

    async def deploy(self, order: Order, progress: Progress) -> Outcome:
        """Make the functions of a target ready and deploy each; one that fails keeps no other from it.

        Raises:
            TargetError: the target cannot be made ready.
        """
        prepared = await prepare_each(order.target, self._store, progress=progress)
        deployed, failures = [], {name: str(error) for name, error in prepared.failed.items()}
        for preparation in prepared.ready:
            _foretell(preparation, progress)
            try:
                hosted = await self._functions.deploy(
                    preparation, progress, takes_traffic=order.takes_traffic, tag=order.tag
                )
            except FaasError as error:
                failures[preparation.name] = str(error)
            else:
                deployed.append(rows.description(hosted, self._url))
        return Outcome(deployed, failures)

    async def share(self, name: str, percents: dict[str, int], tags: dict[str, str | None]) -> dict[str, Any]:
        """Share a function's calls and set its tags. Raises UnknownFunction, PlatformError."""
        return rows.description(await self._functions.share(name, percents, tags), self._url)

    async def roll_back(self, name: str, to: str | None) -> dict[str, Any]:
        """Go back to the version that was promoted before, or where there is none to the revision; or to a revision.

        Raises UnknownFunction, PlatformError.
        """
        hosted = self._functions.get(name)
        if to is None and await self._versioning.can_roll_back(hosted):
            return rows.description(hosted, self._url) | {"versions": await self._versioning.roll_back(hosted)}
        return rows.description(await self._functions.roll_back(name, to), self._url)

    async def delete(self, name: str) -> None:
        """Take a function away. Returns when its calls are answered. Raises UnknownFunction."""
        await self._functions.delete(name)

    # Its life.

    async def _bring_up(self, targets: list[str]) -> None:
        """Bring back what was deployed, and make the functions of targets ready.

        A target that cannot be made ready is named, and keeps the others from nothing.
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
                _foretell(preparation, self._progress)
        if errors and not self._functions.can_serve:
            raise errors[0]
        if self._sync is not None:
            await self._sync.once()
        self._functions.begin()

    async def _listen(self, host: str, port: int) -> None:
        """Take calls from now on; those for a function whose zygote is not ready yet wait for it."""
        try:
            bound = await self._activator.listen(host, port)
        except OSError as error:
            raise PlatformError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        inner.bind(str(self._inner))
        await self._activator.listen_on(inner)
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"

    def _control_on_port(self) -> list[ControlServer]:
        """Have the control interface on the platform's port, for who has the token; nowhere where there is none."""
        if self._token is None:
            return []
        path = self._folder / "control"
        self._functions.registry.mount(gate.PREFIX, str(path))
        return [ControlServer(self, path, token=self._token, more=self._more_control())]

    def _more_control(self) -> list[Route]:
        routes = versions_control.routes(self._versioning, self._functions.get, lambda: self._functions)
        routes.append(counted.route(self._functions.get))
        if self._sync is not None:
            routes += place_control.routes(str(self._sync.place), self._sync.seek, self._of_bundle)
        return routes

    def _of_bundle(self, name: str) -> list[dict[str, Any]]:
        return [rows.description(one, self._url) for one in self._functions if one.revisions.bundle == name]

    def _follow(self) -> None:
        """Do from now on what becomes of the place of bundles."""
        if self._sync is not None:
            self._sync.is_serving = True
            self._functions.registry.search = Search(self._sync.seek)
            self._following = asyncio.ensure_future(self._sync.run())

    def _announce(self) -> None:
        record = Record(os.getpid(), self._url, str(self._settings.run / CONTROL_FILE))
        path = record_path(self._settings)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(record))
        temporary.replace(path)
        for hosted in self._functions:
            self._progress(f"{hosted.name} is at {self._url}/f/{hosted.name}/")
        if not self.functions() and self._sync is None:
            self._progress(f"no functions yet at {self._url}; faas deploy --local TARGET adds one")
        self._progress(f"the page is at {self._url}/-/")

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


def _foretell(preparation: Preparation, progress: Progress) -> None:
    warning = foresight.on_cluster(preparation.description)
    if warning is not None:
        progress(warning)


def _refuse_equal_names(other: Preparation | None, preparation: Preparation) -> None:
    if other is not None and other.description.target != preparation.description.target:
        raise SettingError(
            f"two functions are called {preparation.name!r}: {other.description.target} and "
            f"{preparation.description.target}; give one of them another name=..."
        )
