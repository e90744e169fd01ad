"""The one-box platform: functions made ready, a warm pool, an activator in front, a control loop for each function."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from faas.address import Record, lock_path, record_path
from faas.clock import monotonic
from faas.errors import PlatformError, SettingError
from faas.platform import instances
from faas.platform.activator import Activator
from faas.platform.control import ControlServer, UnknownFunction
from faas.platform.instances import Launcher
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.platform.registry import Registry
from faas.preparation import Preparation, Preparations
from faas.prepare import prepare
from faas.settings import Settings
from faas.signals import stop_signals
from warmpool.pool import WarmPool

CONTROL_FILE = "control.sock"
PARKED_PER_ENVIRONMENT = 1
"""Workers forked ahead for each import set, whatever its functions ask for: a wake-up then waits for no fork."""

Progress = Callable[[str], None]


class Platform:
    """A running platform. Made on a running loop; `run` it to its end."""

    def __init__(self, settings: Settings, store: Path, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._preparations = Preparations(store)
        self._store = store
        self._pool = WarmPool()
        self._folder = Path(tempfile.mkdtemp(prefix="faas-"))
        self._inner = self._folder / "platform"
        self._launcher = Launcher(self._pool, self._folder, platform_socket=self._inner)
        self._registry = Registry()
        self._activator = Activator(self._registry)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._pool_changes: set[asyncio.Task[None]] = set()
        self._url = ""

    async def run(self, targets: list[str], *, host: str, port: int) -> int:
        """Serve the functions of `targets` until told to stop. Returns the exit status."""
        try:
            if not await self._unless_stopped(self._bring_up(targets)):
                return 1
            bound = await self._listen(host, port)
            control = ControlServer(self, self._settings.run / CONTROL_FILE)
            serving = asyncio.ensure_future(control.run())
            self._announce(host, bound)
            await self._stopping.wait()
            await self._bring_down()
            control.stop()
            await serving
        finally:
            for task in [*self._tasks, *self._pool_changes]:
                task.cancel()
            await self._pool.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                record_path(self._settings).unlink()
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

    def functions(self) -> list[dict[str, Any]]:
        """Return what is known of each function."""
        return [self._function(loop) for loop in self._registry]

    def instances(self) -> list[dict[str, Any]]:
        """Return what is known of each instance."""
        now = monotonic()
        return [
            {
                "id": made.id,
                "function": made.function,
                "revision": made.revision,
                "state": made.state.value,
                "pid": made.pid,
                "how": made.how,
                "age_s": round(now - made.ordered_at, 3),
                "start_ms": _milliseconds(made.phases),
            }
            for loop in self._registry
            for made in loop.instances
        ]

    def log(self, name: str) -> LogFile:
        """Return a function's log. Raises UnknownFunction."""
        return self._known(name).log

    async def scale(self, name: str, num_instances: int) -> dict[str, Any]:
        """Bring a function to a number of instances; returns when those that must go are gone.

        Beside what is known of it, the answer has the number that was `wanted` and the `most` that it may have.
        """
        loop = self._known(name)
        await loop.scale(num_instances)
        return self._function(loop) | {"wanted": num_instances, "most": loop.preparation.description.max_instances}

    def _known(self, name: str) -> ScalingLoop:
        loop = self._registry.get(name)
        if loop is None:
            known = ", ".join(sorted(found.preparation.name for found in self._registry))
            raise UnknownFunction(f"no function {name!r} here; `faas list` names those there are: {known}")
        return loop

    def _function(self, loop: ScalingLoop) -> dict[str, Any]:
        preparation = loop.preparation
        counts, start = loop.capacity.counts, loop.last_start
        return {
            "name": preparation.name,
            "url": f"{self._url}/f/{preparation.name}/",
            "target": preparation.description.target,
            "revision": preparation.revision,
            "ready": loop.num_ready,
            "instances": len(loop.instances),
            "held": loop.capacity.num_held,
            "in_flight": loop.capacity.concurrency.current,
            "requests": counts.requests,
            "failed": counts.failed,
            "starts": loop.num_starts,
            "failure": loop.failure,
            "snapshot": preparation.snapshot,
            "reason": preparation.reason,
            "last_start_ms": _milliseconds({"total": start.total_s, **start.phases}) if start is not None else None,
        }

    async def _bring_up(self, targets: list[str]) -> None:
        """Make every function ready, then its zygote; a name that two targets share is refused."""
        for target in targets:
            for preparation in await prepare(target, self._store, progress=self._progress):
                other = self._registry.get(preparation.name)
                if other is not None:
                    raise SettingError(
                        f"two functions are called {preparation.name!r}: {other.preparation.description.target} and "
                        f"{preparation.description.target}; give one of them another name=..."
                    )
                self._add(preparation)
        for loop in self._registry:
            self._progress(f"starting the zygote of {loop.preparation.name}")
            await self._warm(loop.preparation)

    def _add(self, preparation: Preparation) -> None:
        loop = ScalingLoop(
            preparation,
            self._launcher,
            LogFile(self._settings.logs, preparation.name),
            on_imported=lambda late: self._learn(preparation.name, late),
        )
        self._registry.add(loop)
        self._tasks.append(asyncio.ensure_future(loop.run()))

    async def _warm(self, preparation: Preparation) -> None:
        parked = max(PARKED_PER_ENVIRONMENT, preparation.description.buffer_instances)
        zygote = await self._pool.warm(instances.environment(preparation), buffer=parked)
        if zygote.hazard is not None:
            self._progress(f"{preparation.name}: no forks, instances start slowly: {zygote.hazard}")

    def _learn(self, name: str, late: list[str]) -> None:
        """Give the function a zygote that also has the modules that its calls turned out to import."""
        loop = self._known(name)
        old = loop.preparation
        late = [module for module in late if module not in old.imports]
        if not late or self._stopping.is_set():
            return
        new = old.importing(tuple(late))
        self._preparations.write(new)
        change = asyncio.ensure_future(self._replace(loop, old, new))
        self._pool_changes.add(change)
        change.add_done_callback(self._pool_changes.discard)

    async def _replace(self, loop: ScalingLoop, old: Preparation, new: Preparation) -> None:
        await self._warm(new)
        loop.adopt(new)
        environment = instances.environment(old)
        if all(instances.environment(other.preparation) != environment for other in self._registry):
            await self._pool.retire(environment, keep_workers=True)

    async def _listen(self, host: str, port: int) -> int:
        try:
            bound = await self._activator.listen(host, port)
        except OSError as error:
            raise PlatformError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        inner.bind(str(self._inner))
        await self._activator.listen_on(inner)
        self._registry.is_ready = True
        return bound

    def _announce(self, host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        self._url = f"http://{shown}:{port}"
        record = Record(os.getpid(), self._url, str(self._settings.run / CONTROL_FILE))
        path = record_path(self._settings)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(record))
        temporary.replace(path)
        for loop in self._registry:
            self._progress(f"{loop.preparation.name} is at {self._url}/f/{loop.preparation.name}/")

    async def _bring_down(self) -> None:
        """Answer what is under way, then end the instances."""
        self._registry.is_ready = False
        grace_s = max((loop.preparation.description.grace_period_s for loop in self._registry), default=0.0)
        await self._activator.drain(grace_s)
        for task in self._tasks:  # nothing starts any more
            task.cancel()
        await asyncio.gather(*(loop.stop(grace_s) for loop in self._registry))


async def run(
    targets: list[str], *, host: str, port: int, settings: Settings, store: Path | None = None, progress: Progress
) -> int:
    """Be the platform until SIGTERM, SIGINT or `faas down`. Returns the exit status.

    Raises:
        TargetError: a target cannot be made ready.
        PlatformError: another platform runs on this `FAAS_HOME`, or the port is taken.
    """
    with _alone(settings):
        platform = Platform(settings, store or settings.snapshots, progress)
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, platform.shut_down)
        return await platform.run(targets, host=host, port=port)


def _milliseconds(durations_s: Mapping[str, float]) -> dict[str, float]:
    return {name: round(duration_s * 1e3, 3) for name, duration_s in durations_s.items()}


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Hold what only one platform on a `FAAS_HOME` can hold; it is let go when the process ends, however it ends.

    Meanwhile the pid is in it, for those who ask before the platform is up.
    """
    settings.run.mkdir(parents=True, exist_ok=True)
    with lock_path(settings).open("a") as lock:  # whoever is refused shall not empty it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlatformError(f"a platform already runs on {settings.home}; `faas down` ends it") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
