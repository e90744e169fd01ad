"""The control interface of this machine's platform, as commands ask it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec

from faas import address, settings
from faas.address import Record
from faas.errors import PlatformError, RemoteError

_ANSWER_S = 60.0


class Control:
    """The platform of a record; of this machine, unless told.

    Raises:
        PlatformError: none runs here.
    """

    def __init__(self, record: Record | None = None) -> None:
        self.record = record or _record()
        transport = httpx.HTTPTransport(uds=self.record.control)
        self._client = httpx.Client(transport=transport, base_url="http://platform", timeout=_ANSWER_S)

    def get(self, path: str) -> Any:
        """Return what the platform says.

        Raises:
            RemoteError: it refuses; keeps the status.
            PlatformError: it does not answer.
        """
        return self._ask("GET", path, None, _ANSWER_S)

    def post(self, path: str, value: Any = None, *, timeout_s: float | None = _ANSWER_S) -> Any:
        """Tell the platform something; returns what it says. Raises what `get` raises."""
        return self._ask("POST", path, value, timeout_s)

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of an answer as they come. Raises what `get` raises."""
        with self._answering(), self._client.stream("GET", path, timeout=None) as response:
            if not response.is_success:
                response.read()
                raise _refusal(response)
            rest = b""
            for chunk in response.iter_bytes():
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole

    def _ask(self, method: str, path: str, value: Any, timeout_s: float | None) -> Any:
        body = None if value is None else msgspec.json.encode(value)
        with self._answering():
            response = self._client.request(method, path, content=body, timeout=timeout_s)
        if not response.is_success:
            raise _refusal(response)
        return msgspec.json.decode(response.content)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise PlatformError(f"the platform (process {self.record.pid}) does not answer: {error}") from error


def _record() -> Record:
    found = settings.read()
    record = address.read_record(found)
    if record is None:
        raise PlatformError(f"no platform runs here (there is no record of one in {found.run})")
    return record


def _refusal(response: httpx.Response) -> RemoteError:
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    return RemoteError(str(problem.get("detail") or response.text), response.status_code, problem)
