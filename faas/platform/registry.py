"""Which function a request is for, by path (`/f/NAME/...`), by Host header, or the only one; and which revision.

A revision is asked for by its tag: in a header, as `/f/NAME@TAG/...`, or as the host `TAG-NAME.anything`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote_to_bytes

import msgspec

from faas import names
from faas.errors import SettingError
from faas.platform import metrics
from faas.platform.breaker import Capacity
from faas.platform.endpoint import Endpoint
from faas.platform.hosted import Hosted
from faas.platform.routing import Sought, Target
from faas.platform.search import Search
from faas.platform.wire import LocalAnswer, problem

PREFIX = b"/f/"
PAGE = b"/-/"
_PROBES = (b"/livez", b"/readyz", b"/healthz")


class Registry:
    """The functions of a platform by name, and the router of its activator."""

    def __init__(self) -> None:
        self._functions: dict[str, Hosted] = {}
        self._by_bytes: dict[bytes, Hosted] = {}
        self._by_tag: dict[bytes, tuple[Hosted, bytes]] = {}
        self._mounted: dict[bytes, Capacity] = {}
        self.is_ready = False
        self.page: Capacity | None = None
        """The page's own server, where there is one."""
        self.search: Search | None = None
        """What finds functions that are not known yet, where there is a place to look at."""

    def mount(self, prefix: bytes, address: str) -> None:
        """Send what is below a path, without that path, to a local server: the one on the Unix socket `address`."""
        capacity = self._mounted[prefix] = Capacity()
        capacity.add(Endpoint(address))

    def unmount(self) -> None:
        """Send nothing more to local servers, the page's among them."""
        self._mounted.clear()
        self.page = None

    def add(self, hosted: Hosted) -> None:
        """Take a function in."""
        self._functions[hosted.name] = hosted
        self.index()

    def remove(self, name: str) -> None:
        """Send nothing more to a function."""
        self._functions.pop(name, None)
        self.index()

    def index(self) -> None:
        """Look at the functions' names and tags again.

        A path may be written with the Python name of a function, too, and a host with its tag and name, where that is
        no other's own name.
        """
        self._by_bytes = {name.encode(): hosted for name, hosted in self._functions.items()}
        self._by_tag = {}
        for hosted in self._functions.values():
            if hosted.python_name is not None:
                self._by_bytes.setdefault(hosted.python_name.encode(), hosted)
            for tag in hosted.revisions.tags:
                self._by_tag.setdefault(f"{tag}-{hosted.name}".encode(), (hosted, tag.encode()))

    def get(self, name: str) -> Hosted | None:
        """Return the function of that name, or None."""
        return self._functions.get(name)

    def __iter__(self) -> Iterator[Hosted]:
        return iter(self._functions.values())

    def route(self, host: bytes, path: bytes, method: bytes, tag: bytes = b"") -> Target | LocalAnswer | Sought:
        """Return where a request goes; see `routing.Router`."""
        if path.startswith(PREFIX):
            return self._by_path(path, tag)
        for prefix, capacity in self._mounted.items():
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in (b"", b"/"):
                return Target(capacity, path[len(prefix) :] or b"/")
        label = host.partition(b":")[0].partition(b".")[0]
        hosted = self._by_bytes.get(label)
        if hosted is not None:
            return self._of(hosted, path, tag)
        if label in self._by_tag:
            hosted, of_host = self._by_tag[label]
            return _target(hosted, path, of_host)
        if path in _PROBES:
            return self._probe(path, method)
        if self.page is not None and (path.startswith(PAGE) or (path == b"/" and method in (b"GET", b"HEAD"))):
            return Target(self.page, path)
        if path == b"/metrics":
            loops = [loop for hosted in self for loop in hosted.loops]
            return LocalAnswer(200, metrics.expose(loops), metrics.CONTENT_TYPE)
        if len(self._functions) == 1:
            return self._of(next(iter(self._functions.values())), path, tag)
        if path == b"/":
            paths = [f"/f/{name}/" for name in sorted(self._functions)]
            return LocalAnswer(200, msgspec.json.encode({"functions": paths}))
        return problem(404, f"no function is at {_shown(path)}; this platform has {self._known()}")

    def _by_path(self, path: bytes, tag: bytes) -> Target | LocalAnswer | Sought:
        name, slash, rest = path[len(PREFIX) :].partition(b"/")
        hosted = self._by_bytes.get(name)
        if hosted is None:
            name, _, of_path = unquote_to_bytes(name).partition(b"@")
            tag = of_path or tag
            hosted = self._by_bytes.get(name)
        if hosted is None:
            near = names.suggestion(_shown(name), self._functions)
            unknown = problem(404, f"no function {_shown(name)!r} here{near}; this platform has {self._known()}")
            return self._sought(_shown(name), unknown)
        return self._of(hosted, slash + rest if slash else b"/", tag)

    def _of(self, hosted: Hosted, path: bytes, tag: bytes) -> Target | LocalAnswer | Sought:
        found = _target(hosted, path, tag)
        if isinstance(found, LocalAnswer) and not hosted.revisions.deployments and hosted.failure is None:
            return self._sought(hosted.name, found)  # it is being deployed for the first time
        return found

    def _sought(self, name: str, otherwise: LocalAnswer) -> LocalAnswer | Sought:
        """Search for a function that cannot be called now, where there is a place to search."""
        if self.search is None:
            return otherwise
        try:
            return Sought(partial(self.search.find, names.label(name)), otherwise)
        except SettingError:  # no function can have that name
            return otherwise

    def _probe(self, path: bytes, method: bytes) -> LocalAnswer:
        if method not in (b"GET", b"HEAD", b"OPTIONS"):
            return problem(405, f"{_shown(path)} answers GET, HEAD and OPTIONS")
        if path != b"/livez" and not self.is_ready:
            return problem(503, "the platform is starting or draining", retry_after_s=1)
        return LocalAnswer(200, b'{"status":"ok"}', headers=((b"allow", b"GET, HEAD, OPTIONS"),))

    def _known(self) -> str:
        return ", ".join(f"/f/{name}/" for name in sorted(self._functions)) or "none"


def _target(hosted: Hosted, path: bytes, tag: bytes) -> Target | LocalAnswer:
    if tag:
        return _tagged(hosted, path, _shown(tag))
    capacity: Capacity | None = hosted.next()
    if capacity is not None:
        return Target(capacity, path)
    if hosted.failure is not None:
        return problem(503, f"{hosted.name} cannot be served: {hosted.failure}")
    return problem(503, f"no revision of {hosted.name} gets calls without a tag; faas traffic {hosted.name} shows them")


def _tagged(hosted: Hosted, path: bytes, tag: str) -> Target | LocalAnswer:
    capacity = hosted.tagged(tag)
    if capacity is not None:
        return Target(capacity, path)
    tags = hosted.revisions.tags
    known = ", ".join(sorted(tags)) or "none"
    return problem(404, f"{hosted.name} has no tag {tag!r}{names.suggestion(tag, tags)}; it has: {known}")


def _shown(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
