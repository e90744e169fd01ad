"""A list that is kept up to date: list, watch from there, and list again whenever the watch can no longer be trusted.

A watch ends quietly, by the server's time limit or a proxy's. One that brought something goes on from the last version
it brought, a bookmark's included. Every other end, and a 410 as an event or as a status, means a new list: what
happened meanwhile is in it, so nothing is missed and no old version is asked for twice.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deploy.errors import ApiError, ClusterError, Missing, NotAllowed, Refused, Unreachable
from deploy.knative.resources import Document
from deploy.knative.rest import Rest, raise_for_status

_LONGEST_S = 300  # of one watch; servers end them sooner or later anyway
_SILENCE_S = 90  # bookmarks come about once a minute
_BACKOFF_S, _MAX_BACKOFF_S = 0.05, 5.0
_FINAL = (NotAllowed, Missing, Refused)


@dataclass(frozen=True)
class Listed:
    """All there is, now."""

    items: tuple[Document, ...]


@dataclass(frozen=True)
class Changed:
    """One object as it is now, or as it was when it went (`DELETED`)."""

    kind: str
    object: Document


class Watch:
    """One collection, watched until `stop` or a deadline. `events` runs in one thread, `stop` is called from any."""

    def __init__(
        self, rest: Rest, path: str, query: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rest, self._path, self._query, self._clock = rest, path, dict(query), clock
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._response: Any = None

    def stop(self) -> None:
        """End `events`, though it waits for the server."""
        with self._lock:
            self._stopped.set()
            cut(self._response)

    def events(self, deadline: float) -> Iterator[Listed | Changed]:
        """A `Listed` first, then what changes; another `Listed` replaces all that was said before.

        Ends at `deadline` (of the clock) or `stop`. Raises what no second try would mend: no right, no such kind, and
        any error of the very first list.
        """
        version: str | None = None
        ever, num_fruitless = False, 0
        while not self._over(deadline):
            fruitful = False
            try:
                if version is None:
                    page = self._rest.list_all(self._path, self._query)
                    version, ever = page["metadata"].get("resourceVersion"), True
                    yield Listed(tuple(page["items"]))
                for kind, found in self._stream(version, deadline):
                    version, fruitful = found["metadata"]["resourceVersion"], True
                    if kind != "BOOKMARK":
                        yield Changed(kind, found)
                version = version if fruitful else None
            except _FINAL:
                raise
            except ClusterError:
                if not ever:
                    raise
                version = None
            num_fruitless = 0 if fruitful else num_fruitless + 1
            if num_fruitless:
                self._stopped.wait(min(pause_s(num_fruitless), self._left(deadline)))

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self._clock())

    def _over(self, deadline: float) -> bool:
        return self._stopped.is_set() or self._left(deadline) <= 0

    def _stream(self, version: str | None, deadline: float) -> Iterator[tuple[str, Document]]:
        left_s = self._left(deadline)
        query: dict[str, str | int | bool] = {
            **self._query,
            "watch": True,
            "allowWatchBookmarks": True,
            "timeoutSeconds": max(1, min(_LONGEST_S, int(left_s) + 1)),
        }
        if version is not None:
            query["resourceVersion"] = version
        with self._rest.stream(self._path, query, read_timeout_s=min(_SILENCE_S, left_s + 0.2)) as response:
            if not self._hold(response):
                return
            try:
                for line in lines(response):
                    yield _event(line, self._path)
            finally:
                with self._lock:
                    self._response = None

    def _hold(self, response: Any) -> bool:
        """Let `stop` end this response too; False where it came first."""
        with self._lock:
            self._response = response
            return not self._stopped.is_set()


def pause_s(num_fruitless: int) -> float:
    """How long to wait after so many watches in a row that brought nothing; a quiet service may have any number."""
    return min(_MAX_BACKOFF_S, _BACKOFF_S * 2.0 ** min(num_fruitless, 10))


def _event(line: bytes, path: str) -> tuple[str, Document]:
    """Its kind and its object; raises what an `ERROR` says, and `Unreachable` for a line that is no whole event."""
    try:
        event = json.loads(line)
        kind, found = str(event["type"]), dict(event["object"])
    except (ValueError, LookupError, TypeError) as cut_off:
        raise Unreachable(f"watching {path}: an event broke off after {len(line)} bytes") from cut_off
    if kind == "ERROR":
        raise_for_status(found, f"watching {path}")
    return kind, found


def lines(response: Any) -> Iterator[bytes]:
    """The lines of an answer as they come, a last one without its end included; raises `Unreachable` if it breaks."""
    from urllib3.exceptions import HTTPError

    rest = b""
    try:
        for chunk in response.stream(None, decode_content=True):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line for line in whole if line.strip())
    except HTTPError as failed:
        raise Unreachable(f"an answer of the API server broke off: {failed}") from failed
    if rest.strip():
        yield rest


def cut(response: Any) -> None:
    """Make a thread that reads `response` return; None, and one that has just ended, are let be."""
    if response is not None:
        with suppress(OSError, RuntimeError, ValueError):
            response.shutdown()


def is_passing(failed: ClusterError) -> bool:
    """Whether the same request may well succeed a little later."""
    return isinstance(failed, Unreachable) or (isinstance(failed, ApiError) and not isinstance(failed, _FINAL))
