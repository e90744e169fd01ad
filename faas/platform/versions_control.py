"""The part of the control interface that is about versions.

GET  /functions/NAME/versions              all that is known
POST /functions/NAME/versions/label        {"label": text, "version": n or null}
POST /functions/NAME/versions/settings     any of policy, num, versions, transition, mode; null: as the code says
POST /v2/repository/index                  {"ready": bool}, as Triton has it
POST /v2/repository/models/NAME/load|unload
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faas.engine.versions.labels import STABLE
from faas.engine.versions.states import State
from faas.errors import PlatformError
from faas.platform.control import json_answer
from faas.platform.hosted import Hosted
from faas.platform.versioning import Versioning, is_versioned
from faas.spec.versions import Transition, VersionMode, VersionPolicy

_T = TypeVar("_T", bound=msgspec.Struct)


class _Label(msgspec.Struct, forbid_unknown_fields=True):
    version: int | None
    label: str = STABLE


class _Settings(msgspec.Struct, forbid_unknown_fields=True):
    policy: VersionPolicy | msgspec.UnsetType | None = msgspec.UNSET
    num: int | msgspec.UnsetType | None = msgspec.UNSET
    versions: tuple[int, ...] | msgspec.UnsetType | None = msgspec.UNSET
    transition: Transition | msgspec.UnsetType | None = msgspec.UNSET
    mode: VersionMode | msgspec.UnsetType | None = msgspec.UNSET


class _Index(msgspec.Struct):
    ready: bool = False


def routes(versioning: Versioning, get: Callable[[str], Hosted], all_of: Callable[[], Iterable[Hosted]]) -> list[Route]:
    """Return the routes. `get` returns a function or raises UnknownFunction, `all_of` returns all."""

    async def known(request: Request) -> Response:
        return json_answer(await versioning.describe(get(request.path_params["name"])))

    async def label(request: Request) -> Response:
        hosted, wanted = get(request.path_params["name"]), await _read(request, _Label)
        return json_answer(await versioning.promote(hosted, wanted.version, wanted.label))

    async def settings(request: Request) -> Response:
        hosted, wanted = get(request.path_params["name"]), await _read(request, _Settings)
        return json_answer(await versioning.set(hosted, msgspec.to_builtins(wanted)))

    async def index(request: Request) -> Response:
        wanted = await _read(request, _Index)
        rows = [row for hosted in all_of() if is_versioned(hosted) for row in await _rows(versioning, hosted)]
        return json_answer([row for row in rows if row["state"] == "READY" or not wanted.ready])

    def change(do: Callable[[Hosted], Awaitable[object]]) -> Callable[[Request], Awaitable[Response]]:
        async def changed(request: Request) -> Response:
            await do(get(request.path_params["name"]))
            return json_answer({})

        return changed

    return [
        Route("/functions/{name}/versions", known),
        Route("/functions/{name}/versions/label", label, methods=["POST"]),
        Route("/functions/{name}/versions/settings", settings, methods=["POST"]),
        Route("/v2/repository/index", index, methods=["POST"]),
        Route("/v2/repository/models/{name}/load", change(versioning.load), methods=["POST"]),
        Route("/v2/repository/models/{name}/unload", change(versioning.unload), methods=["POST"]),
    ]


async def _rows(versioning: Versioning, hosted: Hosted) -> list[dict[str, str]]:
    """Return a function's part of the index: a version is ready where an instance has it so."""
    known = await versioning.describe(hosted)
    held = [row for instance in known["instances"].values() for row in instance["versions"]]
    rows = []
    for number in known["versions"]:
        of_number = [row for row in held if row["version"] == number]
        is_ready = any(row["state"] == State.AVAILABLE.name for row in of_number)
        reason = next((row["reason"] for row in of_number if row["reason"]), "" if of_number else "held by no instance")
        state = "READY" if is_ready else "UNAVAILABLE"
        rows.append({"name": hosted.name, "version": str(number), "state": state, "reason": "" if is_ready else reason})
    return rows


async def _read(request: Request, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=kind)
    except msgspec.MsgspecError as error:
        fields = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
        raise PlatformError(f"send a JSON object with {fields}: {error}") from None
