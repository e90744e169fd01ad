"""A page of a made-up platform behind a real activator, and a browser to look at it with."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from faas.platform.activator import Activator
from faas.platform.control import UnknownFunction
from faas.platform.logs import LogFile
from faas.platform.page.access import Access
from faas.platform.page.history import History, Sample, Start, _Past
from faas.platform.page.server import PageServer
from faas.platform.registry import Registry


def row(name: str, **known) -> dict:
    """What a platform tells of a function, in a list."""
    told = {"name": name, "url": f"http://x/f/{name}/", "target": f"app.py:{name}", "revision": "r1", "revisions": 1}
    told |= {"traffic": {"r1": 100}, "tags": {}, "ready": 0, "instances": 0, "held": 0, "in_flight": 0, "requests": 0}
    told |= {"failed": 0, "starts": 0, "failure": None, "snapshot": "s", "reason": None, "last_start_ms": None}
    return told | known


def instance(id: str, **known) -> dict:
    told = {"id": id, "function": "f", "revision": "r1", "state": "ready", "pid": 7, "how": "fork", "age_s": 1.0}
    return told | {"start_ms": {}} | known


LIMITS = {"min_instances": 0, "max_instances": 2, "buffer_instances": 0, "target_inputs": 8, "max_inputs": 16}
LIMITS |= {"max_queue": 100, "scaledown_window_s": 60.0, "timeout_s": 60.0, "startup_timeout_s": 300.0}
LIMITS |= {"grace_period_s": 30.0, "cpu": 1.0, "memory_bytes": 2**31}


class Source:
    """A platform as the page sees one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, dict] = {}
        self.all_instances: dict[str, list[dict]] = {}
        self.logs: dict[str, LogFile] = {}
        self.sockets: dict[str, str] = {}

    def add(self, name: str, *instances: dict, **known) -> None:
        self.rows[name] = row(name, **known)
        self.all_instances[name] = list(instances)
        self.logs.setdefault(name, LogFile(self.folder / "logs", name))

    def functions(self):
        return [dict(row) for row in self.rows.values()]

    def function(self, name):
        if name not in self.rows:
            raise UnknownFunction(f"no function {name!r} here")
        revision = {"revision": "r1", "number": 1, "deployed_at": 1.8e9, "state": "serving", "percent": 100, "tags": []}
        revision |= {"target": "app.py", "snapshot": "s", "reason": None, "ready": 0, "instances": 0, "requests": 0}
        known = {"limits": LIMITS, "all_revisions": [revision | {"failure": None}]}
        return self.rows[name] | known | {"all_instances": self.all_instances[name]}

    def log(self, name):
        self.function(name)
        return self.logs[name]

    def addresses(self, name):
        self.function(name)
        return self.sockets


class Site:
    """A page at `url`. `do` runs a function on its event loop, and has all who look told of it."""

    def __init__(self, folder: Path, access: Access) -> None:
        self.source = Source(folder)
        self.history = History()
        self._folder = folder
        self._access = access

    async def begin(self, port: int = 0) -> None:
        self._page = PageServer(self.source, self.history, self._folder / "page", self._access)
        self._serving = asyncio.ensure_future(self._page.run())
        self.registry = Registry()
        self.registry.is_ready = True
        self.registry.page = self._page.capacity
        self.activator = Activator(self.registry)
        self.url = f"http://127.0.0.1:{await self.activator.listen('127.0.0.1', port)}"

    async def end(self) -> None:
        self.registry.page = None
        self._page.stop()
        await self.activator.drain(5)
        await self._serving

    def remember(self, name: str, *samples: Sample, starts: tuple[Start, ...] = ()) -> None:
        """Have the history know this of a function."""
        known = self.history._pasts.setdefault(name, _Past())
        for sample in samples:
            known.series.note(sample)
        known.starts.extend(starts)


@contextlib.asynccontextmanager
async def served(folder: Path, access: Access = Access(is_loopback=True)):  # noqa: B008
    site = Site(folder, access)
    await site.begin()
    try:
        yield site
    finally:
        await site.end()


class InThread:
    """A site on an event loop in a thread of its own, for what drives a browser meanwhile."""

    def __init__(self, folder: Path, access: Access) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.site = Site(folder, access)
        self._wait(self.site.begin())

    @property
    def url(self) -> str:
        return self.site.url

    def do(self, change) -> None:
        async def run():
            change(self.site)
            self.site.history.tell()

        self._wait(run())

    def restart(self) -> None:
        """End the platform, and have another one at the same port."""
        port = int(self.url.rpartition(":")[2])
        self._wait(self.site.end())
        self._wait(self.site.begin(port))

    def _wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def end(self) -> None:
        self._wait(self.site.end())
        self._wait(self.loop.shutdown_asyncgens())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


@pytest.fixture
def threaded(tmp_path) -> Iterator[type[InThread]]:
    """Make sites in threads; those that were made are ended."""
    made: list[InThread] = []

    def make(access: Access = Access(is_loopback=True)) -> InThread:  # noqa: B008
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(InThread(folder, access))
        return made[-1]

    yield make
    for one in made:
        one.end()
