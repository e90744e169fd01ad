"""The servers of others that models are compared on, each in its own environment, and how they are asked.

One that cannot be had here is reported and left out.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_environments import REQUIREMENTS, NotInstalledError, python_of
from benchmarks.peers.models import MODEL, MODEL_CPU, make_meter, read_meter
from benchmarks.processes import ServerError
from benchmarks.rows import Row
from benchmarks.served import Served, peer

_STARTS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Rival:
    """A server of others: `benchmarks.peers.MODULE` with a port; what `body` makes of an item goes to `path`."""

    module: str
    path: str
    body: Callable[[Any], Any]


@dataclass(frozen=True)
class Running:
    """A rival that runs, where its model tells its CPU time."""

    rival: Rival
    served: Served
    meter: Path

    @property
    def model_cpu_s(self) -> float:
        """The CPU seconds that the model's thread has spent in it."""
        return read_meter(self.meter)


def _tensor(item: str) -> dict[str, Any]:
    return {"inputs": [{"name": "items", "shape": [1], "datatype": "BYTES", "data": [item]}]}


def _item(item: str) -> dict[str, Any]:
    return {"item": item}


RIVALS = {
    "litserve": Rival("lit_model", "", _item),
    "bentoml": Rival("bento_model", "predict", lambda item: {"items": [item]}),
    "mlserver": Rival("ml_model", "v2/models/model/infer", _tensor),
    "ray_serve": Rival("ray_model", "", _item),
}


def title(name: str) -> str:
    """Return a rival's name with its version."""
    return REQUIREMENTS[name][0]


@asynccontextmanager
async def rival(name: str, home: Path, model: str, item: str, **variables: str) -> AsyncIterator[Running | None]:
    """Serve one of `peers.models` by a rival; it has answered `item` once. None where it cannot be had."""
    one, meter = RIVALS[name], home / f"{name}-{model}-cpu"
    make_meter(meter)
    variables |= {MODEL: model, MODEL_CPU: str(meter)}
    async with AsyncExitStack() as owned:
        try:
            python = await python_of(name)
            serving = peer(
                one.module,
                home,
                one.body(item),
                path=one.path,
                python=python,
                within_s=_STARTS_WITHIN_S,
                variables=variables,
            )
            running = Running(one, await owned.enter_async_context(serving), meter)
        except (NotInstalledError, ServerError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            yield None
            return
        yield running


def missing(name: str, what: str) -> Row:
    """Return the row of a rival that could not be had."""
    return Row(f"{what}, {title(name)}: could not be had", 0.0)
