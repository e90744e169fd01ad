"""The versions of an instance over HTTP: their status as TensorFlow Serving tells it, the repository as Triton has it.

GET  /v1/models/NAME[/versions/N|/labels/L]      status
GET  /v2/repository/models/NAME                  all that is known
POST /v2/repository/index                        {"ready": bool}
POST /v2/repository/models/NAME/load|unload      for whoever may
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from faas import codec
from faas.engine.versions import report
from faas.engine.versions.keeper import Keeper
from faas.engine.versions.lifecycle import Entry
from faas.engine.versions.policies import number_of
from faas.engine.versions.source import SourceError
from faas.errors import (
    BadInput,
    BadLabel,
    CallerGone,
    FaasError,
    PayloadTooLarge,
    SettingError,
    UnknownVersion,
    UnsupportedMedia,
)
from faas.server import media
from faas.server.admin import Admin, Forbidden
from faas.server.answer import Answer
from faas.server.body import Body
from faas.server.problem import CLIENT_CLOSED

_MAX_BODY_BYTES: Final = 1 << 16
_STATUS: Final = re.compile(r"/v1/models/([^/:]+)(?:/(versions|labels)/([^/:]+))?", re.IGNORECASE)
_MODEL: Final = re.compile(r"/v2/repository/models/([^/]+)(?:/(load|unload))?")
_INDEX: Final = "/v2/repository/index"


_T = TypeVar("_T", bound=msgspec.Struct)


class _Ready(msgspec.Struct):
    ready: bool = False


class _Wanted(msgspec.Struct):
    parameters: dict[str, Any] = {}


class UnknownModel(FaasError):
    """There is no model of that name here."""


class Repository:
    """Answers what is asked of versions, and leads everything else on to `others`."""

    def __init__(self, keeper: Keeper, admin: Admin, others: ASGIApp) -> None:
        self._keeper = keeper
        self._admin = admin
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        answering = self._route(scope) if scope["type"] == "http" else None
        if answering is None:
            await self._others(scope, receive, send)
            return
        body = Body(receive, dict(scope["headers"]), _MAX_BODY_BYTES)
        try:
            answer = Answer.of(media.JSON, codec.encode(await answering(body)))
        except FaasError as error:
            status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
            answer = Answer.of(media.JSON, codec.encode({"error": str(error)}), status=status)
        await answer.send(send, body)

    def _route(self, scope: Scope) -> Callable[[Body], Awaitable[Any]] | None:
        """Return what answers a request, None where it is for others."""
        path, method = scope["path"], scope["method"]
        if method in ("GET", "HEAD") and (found := _STATUS.fullmatch(path)):
            model, by, which = found.groups()
            return lambda _: self._status(model, by, which)
        if method == "POST" and path == _INDEX:
            return self._index
        if found := _MODEL.fullmatch(path):
            name, verb = found.groups()
            if method == "POST" and verb is not None:
                return lambda body: self._change(name, verb, scope, body)
            if method in ("GET", "HEAD") and verb is None:
                return lambda _: self._all(name)
        return None

    async def _status(self, name: str, by: str | None, which: str | None) -> Any:
        self._check(name)
        if by is None or which is None:
            return report.status(self._keeper.entries)
        return report.status([self._by_label(which) if by.lower() == "labels" else self._by_number(which)])

    def _by_number(self, text: str) -> Entry:
        number = number_of(text)
        if number is None:
            raise BadLabel(f"{text!r} is no number of a version")
        for entry in self._keeper.entries:
            if entry.number == number:
                return entry
        raise UnknownVersion(f"{self._keeper.name} has no version {number}")

    def _by_label(self, label: str) -> Entry:
        number = self._keeper.lanes.labels.get(unquote(label))
        if number is None:
            raise BadLabel(f"Unrecognized servable version label: {label}")
        return self._by_number(str(number))

    async def _index(self, body: Body) -> Any:
        wanted = await _read(body, _Ready)
        return report.index(self._keeper.name, self._keeper.entries, ready_only=wanted.ready)

    async def _all(self, name: str) -> Any:
        self._check(name)
        return {"name": self._keeper.name, **self._keeper.overview()}

    async def _change(self, name: str, verb: str, scope: Scope, body: Body) -> Any:
        self._admin.check(scope)
        self._check(name)
        wanted = await _read(body, _Wanted)
        if verb == "unload":
            await self._keeper.unload()
            return {}
        if wanted.parameters:
            given = ", ".join(sorted(wanted.parameters))
            raise BadInput(f"a load takes no parameters: {given}; versions come from their source alone")
        await self._keeper.load()
        if self._keeper.lanes.default is None:
            raise BadInput(self._keeper.why_none())
        return {}

    def _check(self, name: str) -> None:
        if unquote(name) != self._keeper.name:
            raise UnknownModel(f"there is no model {unquote(name)!r} here; this is {self._keeper.name}")


_STATUSES: Final[tuple[tuple[type[FaasError], int], ...]] = (
    (UnknownModel, 404),
    (UnknownVersion, 404),
    (Forbidden, 403),
    (PayloadTooLarge, 413),
    (UnsupportedMedia, 415),
    (BadInput, 400),
    (SettingError, 400),
    (SourceError, 400),
    (CallerGone, CLIENT_CLOSED),
)


async def _read(body: Body, kind: type[_T]) -> _T:
    """Return a body as what a route takes; none is as good as an empty object. Raises MalformedBody, SchemaMismatch."""
    content = await body.read()
    found: _T = codec.decode(content or b"{}", codec.decoder(kind))
    return found
