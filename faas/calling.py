"""One call over HTTP: sent, tried again where the server asks for it, and its answer or its events read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from faas import codec
from faas.address import Address
from faas.clock import monotonic
from faas.connections import client_of
from faas.errors import BadInput, PlatformError, RemoteError, at_field

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"

_RETRIED: Final = (429, 503)
_ERROR_TEXT_LENGTH: Final = 300


@dataclass(frozen=True)
class Request:
    """What is sent to a function: where, its body, the media types sent and wanted, and the seconds it may take.

    `max_tries` bounds how often it is sent, for a server that says to try again. `headers`, in lower case, go
    before ours.
    """

    name: str
    address: Address
    body: bytes
    timeout_s: float
    path: str = "/"
    content_type: str = JSON
    accept: str = JSON
    max_tries: int = 5
    headers: Mapping[str, str] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def call(request: Request) -> AsyncIterator[httpx.Response]:
    """Send `request` and give the good answer, its body unread.

    429 and 503 are tried again after as long as their Retry-After says, while there is time.

    Raises:
        RemoteError: the answer is an error.
        PlatformError: there is no answer, or it broke off.
    """
    client = await client_of(request.address)
    deadline = monotonic() + request.timeout_s
    with _connection_errors(request):
        for num_tries in range(1, request.max_tries + 1):
            response = await client.send(_built(client, request, deadline - monotonic()), stream=True)
            try:
                if response.is_success:
                    yield response
                    return
                await response.aread()
            finally:
                await response.aclose()
            delay_s = retry_delay_s(response.status_code, response.headers, deadline - monotonic())
            if delay_s is None or num_tries == request.max_tries:
                raise _remote_error(request.name, response)
            await asyncio.sleep(delay_s)


def _built(client: httpx.AsyncClient, request: Request, left_s: float) -> httpx.Request:
    headers = {
        "content-type": request.content_type,
        "accept": request.accept,
        "x-request-timeout-ms": str(max(1, round(left_s * 1e3))),
        **request.headers,
    }
    url, extensions = request.address.url + request.path.lstrip("/"), {}
    if request.address.host is not None:
        headers["host"] = request.address.host
        extensions["sni_hostname"] = request.address.host.partition(":")[0]
    return client.build_request("POST", url, content=request.body, headers=headers, extensions=extensions)


def retry_delay_s(status: int, headers: Mapping[str, str], left_s: float) -> float | None:
    """Return after how many seconds to try again, None where that is not asked for or there is no time."""
    try:
        delay_s = float(headers.get("retry-after", ""))
    except ValueError:  # none, or a date: no server of ours sends one
        return None
    return delay_s if status in _RETRIED and 0 <= delay_s < left_s else None


@contextlib.contextmanager
def _connection_errors(request: Request) -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError as error:
        raise PlatformError(f"{request.name} cannot be called: nothing answers at {request.address.title}") from error
    except httpx.TransportError as error:
        raise PlatformError(
            f"the connection to {request.address.title} broke before {request.name} had answered "
            f"({type(error).__name__}: {error}); it may have run"
        ) from error


def _remote_error(name: str, response: httpx.Response) -> RemoteError:
    problem = _problem(response.content)
    detail = problem.get("detail") or response.text[:_ERROR_TEXT_LENGTH] or response.reason_phrase
    said = at_field(str(detail), str(problem.get("field", "$")))
    return RemoteError(f"{name} answered {response.status_code}: {said}", response.status_code, problem)


def _problem(content: bytes) -> dict[str, Any]:
    try:
        found = codec.decode_value(content)
    except BadInput:
        return {}
    return found if isinstance(found, dict) else {}


async def events(name: str, response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event as it comes.

    Raises:
        RemoteError: the stream ends with an error.
    """
    parser = EventParser()
    async for chunk in response.aiter_bytes():
        for kind, data in parser.feed(chunk):
            if kind == "error":
                problem = _problem(data)
                status = problem.get("status")
                status = status if isinstance(status, int) else 500
                raise RemoteError(f"{name} failed with {status}: {problem.get('detail', '')}", status, problem)
            yield data


class EventParser:
    """Cuts a stream of bytes into server-sent events (WHATWG HTML, 9.2.6), of which type and data are kept."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the type ("message" where none is stated) and the data of each event that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if not line:
                if self._data:
                    yield self._kind or "message", b"\n".join(self._data)
                self._kind, self._data = "", []
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                self._data.append(value)
            elif field == b"event":
                self._kind = value.decode("utf-8", "replace")


def media_type(response: httpx.Response) -> str:
    """Return the media type of an answer, without its parameters."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
