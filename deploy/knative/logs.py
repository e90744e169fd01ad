"""What instances write: the logs of every pod of a service as one stream, of pods that join later too.

A line ends at a line feed and at nothing else: progress bars write carriage returns, and texts have separators of their
own. Stamps are in UTC here; container runtimes write them in the zone of their node.
"""

import re
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deploy.errors import ClusterError, Missing, Refused
from deploy.knative.apply import existing
from deploy.knative.merged import Ended, Merged
from deploy.knative.resources import PODS, SERVICE_LABEL, USER_CONTAINER, Document
from deploy.knative.rest import Query, Rest
from deploy.knative.watching import Changed, Listed, Watch, cut, lines

_FOREVER_S = 10 * 365 * 86400.0
_SILENCE_S = 3600.0  # a function may have nothing to say for long
_PAUSE_S = 1.0
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class LogLine:
    """One line of one pod; `at` is the container runtime's stamp (RFC 3339, in UTC), empty where it gave none."""

    pod: str
    at: str
    text: str


def logs(rest: Rest, namespace: str, name: str, *, tail: int | None = 100, since_s: int | None = None) -> list[LogLine]:
    """The last `tail` lines of each pod there is (None: all of them), of the last `since_s` seconds, by time.

    Raises `Missing` where there is no such service.
    """
    existing(rest, namespace, name)
    pods = rest.list_all(PODS.path(namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})["items"]
    found: list[LogLine] = []
    for pod in pods:
        path = PODS.path(namespace, pod["metadata"]["name"], "log")
        with suppress(Missing, Refused):  # gone meanwhile, or its container has not begun
            text = rest.text(path, _query(tail=tail, since_s=since_s))
            found += [_line(pod["metadata"]["name"], line) for line in text.split("\n") if line]
    return sorted(found, key=lambda line: line.at)


def follow(
    rest: Rest, namespace: str, name: str, *, tail: int | None = 10, timeout_s: float = _FOREVER_S
) -> Generator[LogLine, None, None]:
    """Lines as they are written, beginning with the last `tail` of each pod; pods that start are read from their first.

    Ends after `timeout_s`, or when it is closed. A pod that ends leaves; a container that starts anew is read on.
    """
    existing(rest, namespace, name)
    deadline = time.monotonic() + timeout_s
    with Merged[Listed | Changed | LogLine]() as sources:
        watch = Watch(rest, PODS.path(namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})
        sources.add(None, watch.events(deadline), watch.stop)
        first, read = True, set[str]()
        while (came := sources.next(deadline - time.monotonic())) is not None:
            source, item = came
            if isinstance(item, LogLine):
                yield item
            elif isinstance(item, Ended):
                if source is None and item.error is not None:
                    raise item.error
                if source is None:
                    return
            else:
                for pod in _unread(item, read):
                    _Tail(rest, namespace, pod, tail if first else None).join(sources)
                first = False


def _unread(item: Listed | Changed, read: set[str]) -> Iterator[str]:
    """The names of pods that have begun and whose logs are not read; their ids are added to `read`."""
    for pod in item.items if isinstance(item, Listed) else (item.object,):
        uid = pod["metadata"]["uid"]
        if uid not in read and _has_begun(pod):
            read.add(uid)
            yield pod["metadata"]["name"]


class _Tail:
    """The log of one pod, read until the pod is gone."""

    def __init__(self, rest: Rest, namespace: str, pod: str, tail: int | None) -> None:
        self._rest, self._pod, self._tail = rest, pod, tail
        self._path = PODS.path(namespace, pod, "log")
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._response: Any = None

    def join(self, sources: Merged[Any]) -> None:
        sources.add(self._pod, self._lines(), self._stop)

    def _stop(self) -> None:
        with self._lock:
            self._stopped.set()
            cut(self._response)

    def _lines(self) -> Iterator[LogLine]:
        """Read on, after each end, from the last line that came; a pod that is gone or done ends it."""
        last = ""
        while not self._stopped.is_set():
            query = _query(tail=None if last else self._tail, since=last[:19] + "Z" if last else None)
            with suppress(ClusterError):  # the next look at the pod says whether it is over
                for line in self._once({**query, "follow": True}):
                    if line.at > last:
                        last = line.at
                        yield line
            if self._is_over():
                return
            self._stopped.wait(_PAUSE_S)

    def _once(self, query: Query) -> Iterator[LogLine]:
        with self._rest.stream(self._path, query, read_timeout_s=_SILENCE_S) as response:
            with self._lock:
                self._response = response
                if self._stopped.is_set():
                    return
            try:
                for line in lines(response):
                    yield _line(self._pod, line.decode("utf-8", "replace"))
            finally:
                with self._lock:
                    self._response = None

    def _is_over(self) -> bool:
        try:
            pod = self._rest.get(self._path.removesuffix("/log"))
        except Missing:
            return True
        except ClusterError:
            return False
        return bool((pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"))


def _has_begun(pod: Document) -> bool:
    """Whether the function's container has run, so that there is a log to read."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    states = [found for found in statuses if found.get("name") == USER_CONTAINER]
    return any(
        {"running", "terminated"} & (found.get("state") or {}).keys() or found.get("restartCount") for found in states
    )


def _query(*, tail: int | None = None, since_s: int | None = None, since: str | None = None) -> dict[str, Any]:
    query: dict[str, Any] = {"container": USER_CONTAINER, "timestamps": True}
    if tail is not None:
        query["tailLines"] = tail
    if since_s is not None:
        query["sinceSeconds"] = since_s
    if since is not None:
        query["sinceTime"] = since
    return query


def _line(pod: str, line: str) -> LogLine:
    at, _, text = line.partition(" ")
    stamp = _STAMP.fullmatch(at)
    if stamp is None:  # the kubelet's own words, such as that a log is there no more
        return LogLine(pod, "", line)
    second, fraction, zone = stamp.groups(default="")
    if zone != "Z":
        second = datetime.fromisoformat(second + zone).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return LogLine(pod, f"{second}{fraction}Z", text)
