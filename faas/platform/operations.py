"""What is done with a platform from outside, by its control interface and its page: each operation answers as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from faas.clock import monotonic
from faas.errors import FaasError
from faas.platform import foresight, rows
from faas.platform.functions import Functions
from faas.platform.instances import State
from faas.platform.logs import LogFile
from faas.platform.orders import Order, Outcome
from faas.platform.versioning import Versioning
from faas.platform.workplace import Progress
from faas.prepare import prepare_each


class Operations:
    """What can be asked of the platform that serves `functions` at `url`. `store` is the folder of preparations."""

    def __init__(
        self, functions: Functions, versioning: Versioning, store: Path, *, url: str, shut_down: Callable[[], None]
    ) -> None:
        self._functions = functions
        self._versioning = versioning
        self._store = store
        self._url = url
        self.shut_down = shut_down

    def functions(self) -> list[dict[str, Any]]:
        """Return what is known of each function."""
        return [rows.function_row(hosted, self._url) for hosted in self._functions]

    def function(self, name: str) -> dict[str, Any]:
        """Return all that is known of one function. Raises UnknownFunction."""
        return rows.description(self._functions.get(name), self._url)

    def of_bundle(self, name: str) -> list[dict[str, Any]]:
        """Return all that is known of the functions of a bundle."""
        return [rows.description(one, self._url) for one in self._functions if one.revisions.bundle == name]

    def instances(self) -> list[dict[str, Any]]:
        """Return what is known of each instance."""
        now = monotonic()
        return [rows.instance_row(made, now) for loop in self._functions.loops for made in loop.instances]

    def addresses(self, name: str) -> dict[str, str]:
        """Return the sockets of a function's instances that are ready, by their ids. Raises UnknownFunction."""
        loops = self._functions.get(name).loops
        return {made.id: made.address for loop in loops for made in loop.instances if made.state is State.READY}

    def log(self, name: str) -> LogFile:
        """Return a function's log. Raises UnknownFunction."""
        return self._functions.get(name).log

    async def scale(self, name: str, num_instances: int) -> dict[str, Any]:
        """Bring a function to a number of instances; returns when those that must go are gone and the others ready.

        Beside what is known of it, the answer has the number that was `wanted`, the `most` that it may have, and in
        `short` why it has fewer.
        """
        short = await self._functions.scale(name, num_instances)
        hosted = self._functions.get(name)
        most = hosted.main.preparation.description.max_instances if hosted.main is not None else 0
        return rows.function_row(hosted, self._url) | {"wanted": num_instances, "most": most, "short": short}

    async def deploy(self, order: Order, progress: Progress) -> Outcome:
        """Make the functions of a target ready and deploy each; one that fails keeps no other from it.

        Raises:
            TargetError: the target cannot be made ready.
        """
        prepared = await prepare_each(order.target, self._store, progress=progress)
        deployed, failures = [], {name: str(error) for name, error in prepared.failed.items()}
        for preparation in prepared.ready:
            foresight.tell(preparation.description, progress)
            try:
                hosted = await self._functions.deploy(
                    preparation, progress, takes_traffic=order.takes_traffic, tag=order.tag
                )
            except FaasError as error:
                failures[preparation.name] = str(error)
            else:
                deployed.append(rows.description(hosted, self._url))
        return Outcome(deployed, failures)

    async def share(self, name: str, percents: dict[str, int], tags: dict[str, str | None]) -> dict[str, Any]:
        """Share a function's calls and set its tags. Raises UnknownFunction, PlatformError."""
        return rows.description(await self._functions.share(name, percents, tags), self._url)

    async def roll_back(self, name: str, to: str | None) -> dict[str, Any]:
        """Go back to the version that was promoted before, or where there is none to the revision; or to a revision.

        Raises UnknownFunction, PlatformError.
        """
        hosted = self._functions.get(name)
        if to is None and await self._versioning.can_roll_back(hosted):
            return rows.description(hosted, self._url) | {"versions": await self._versioning.roll_back(hosted)}
        return rows.description(await self._functions.roll_back(name, to), self._url)

    async def delete(self, name: str) -> None:
        """Take a function away. Returns when its calls are answered. Raises UnknownFunction."""
        await self._functions.delete(name)
