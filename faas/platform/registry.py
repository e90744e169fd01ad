"""Which function a request is for: by path (`/f/NAME/...`), by Host header, or the only one there is."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from faas import names
from faas.platform import metrics
from faas.platform.loop import ScalingLoop
from faas.platform.routing import Target
from faas.platform.wire import LocalAnswer, problem

PREFIX = b"/f/"
_PROBES = (b"/livez", b"/readyz", b"/healthz")


class Registry:
    """The functions of a platform by name, and the router of its activator."""

    def __init__(self) -> None:
        self._loops: dict[str, ScalingLoop] = {}
        self._by_bytes: dict[bytes, ScalingLoop] = {}
        self.is_ready = False

    def add(self, loop: ScalingLoop) -> None:
        """Take a function in. Its path may be written with its Python name, too, where that is no other's own name."""
        self._loops[loop.preparation.name] = loop
        self._by_bytes[loop.preparation.name.encode()] = loop
        self._by_bytes.setdefault(loop.preparation.python_name.encode(), loop)

    def get(self, name: str) -> ScalingLoop | None:
        """Return the function of that name, or None."""
        return self._loops.get(name)

    def __iter__(self) -> Iterator[ScalingLoop]:
        return iter(self._loops.values())

    def route(self, host: bytes, path: bytes, method: bytes) -> Target | LocalAnswer:
        """Return where a request goes; see `routing.Router`."""
        if path.startswith(PREFIX):
            return self._by_path(path)
        loop = self._by_bytes.get(host.partition(b":")[0].partition(b".")[0])
        if loop is not None:
            return Target(loop.capacity, path)
        if path in _PROBES:
            return self._probe(path, method)
        if path == b"/metrics":
            return LocalAnswer(200, metrics.expose(self), metrics.CONTENT_TYPE)
        if len(self._loops) == 1:
            return Target(next(iter(self._loops.values())).capacity, path)
        if path == b"/":
            return LocalAnswer(200, msgspec.json.encode({"functions": [f"/f/{name}/" for name in sorted(self._loops)]}))
        return problem(404, f"no function is at {_shown(path)}; this platform has {self._known()}")

    def _by_path(self, path: bytes) -> Target | LocalAnswer:
        name, slash, rest = path[len(PREFIX) :].partition(b"/")
        loop = self._by_bytes.get(name)
        if loop is None:
            near = names.suggestion(_shown(name), self._loops)
            return problem(404, f"no function {_shown(name)!r} here{near}; this platform has {self._known()}")
        return Target(loop.capacity, slash + rest if slash else b"/")

    def _probe(self, path: bytes, method: bytes) -> LocalAnswer:
        if method not in (b"GET", b"HEAD", b"OPTIONS"):
            return problem(405, f"{_shown(path)} answers GET, HEAD and OPTIONS")
        if path != b"/livez" and not self.is_ready:
            return problem(503, "the platform is starting or draining", retry_after_s=1)
        return LocalAnswer(200, b'{"status":"ok"}', headers=((b"allow", b"GET, HEAD, OPTIONS"),))

    def _known(self) -> str:
        return ", ".join(f"/f/{name}/" for name in sorted(self._loops)) or "none"


def _shown(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
