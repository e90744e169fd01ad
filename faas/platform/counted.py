"""The part of the control interface that a trial is judged by: what became of the calls of each revision.

GET /functions/NAME/counts    {revision: {"failed": n, "instances": {id: metrics as text}}}
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faas.platform.control import json_answer
from faas.platform.hosted import Hosted
from faas.platform.instances import Instance, State
from faas.platform.loop import ScalingLoop
from faas.platform.page.meters import read_metrics


def route(get: Callable[[str], Hosted]) -> Route:
    """Return the route. `get` returns a function or raises UnknownFunction."""

    async def counts(request: Request) -> Response:
        loops = get(request.path_params["name"]).loops
        found = await asyncio.gather(*map(_counted, loops))
        return json_answer({loop.revision: one for loop, one in zip(loops, found, strict=True)})

    return Route("/functions/{name}/counts", counts)


async def _counted(loop: ScalingLoop) -> dict[str, Any]:
    """Return the calls of a revision that the platform itself failed, and what its instances say of theirs.

    One that does not answer is left out: it ends, or is too busy.
    """
    instances: dict[str, str] = {}

    async def read(made: Instance) -> None:
        with contextlib.suppress(OSError):
            instances[made.id] = await read_metrics(made.address)

    await asyncio.gather(*(read(made) for made in loop.instances if made.state is State.READY))
    return {"failed": loop.capacity.counts.failed, "instances": instances}
