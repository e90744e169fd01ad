"""The part of the control interface that is about the place that functions come from.

GET  /place          {"place": the folder or address}
POST /place/sync     {"bundle": name}: look at the place now; returns when that bundle is deployed, or is gone
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faas.errors import PlatformError
from faas.platform.control import json_answer

Seek = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    bundle: str


def routes(place: str, seek: Seek, of_bundle: Callable[[str], list[dict[str, Any]]]) -> list[Route]:
    """Return the routes. `of_bundle` returns what is known of the functions of a bundle."""

    async def known(_: Request) -> Response:
        return json_answer({"place": place})

    async def sync(request: Request) -> Response:
        try:
            wanted = msgspec.json.decode(await request.body(), type=_Wanted)
        except msgspec.MsgspecError as error:
            raise PlatformError(f"send a JSON object with bundle: {error}") from None
        failures = await seek([wanted.bundle])
        return json_answer(
            {
                "place": place,
                "bundle": wanted.bundle,
                "failure": failures.get(wanted.bundle),
                "functions": of_bundle(wanted.bundle),
            }
        )

    return [Route("/place", known), Route("/place/sync", sync, methods=["POST"])]
