"""How a version comes into memory: thawed beside the others, each into a handler of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import snapshot
from faas.engine.versions.source import Source
from faas.function import Function
from faas.handler import Handler


class Unholdable(Exception):
    """A snapshot holds what several versions in one process would share."""


@dataclass
class Brought:
    """A handler that has its state. `is_warm` tells whether it has answered the example inputs."""

    place: str
    handler: Handler
    mapped_bytes: int
    is_warm: bool = False


class Supply:
    """The versions of one function. All of it takes its time.

    `thaw` returns what is frozen at a place; its second argument tells whether a thread may still be reading it ahead
    when it returns. `manifest` returns its manifest.

    `ahead` are versions that were brought in before there was an instance, in a zygote: each is taken once, and what is
    to be fresh in each instance is still to be made.
    """

    def __init__(
        self,
        function: Function,
        source: Source,
        thaw: Callable[[str, bool], snapshot.Thawed],
        manifest: Callable[[str], snapshot.Manifest],
    ) -> None:
        self.source = source
        self.ahead: dict[int, Brought] = {}
        self._function = function
        self._thaw = thaw
        self._manifest = manifest

    def take_ahead(self, number: int, place: str) -> Brought | None:
        """Return a version that is here already, once, if it is the one at `place`."""
        found = self.ahead.pop(number, None)
        return found if found is not None and found.place == place else None

    def bring(self, place: str, *, background: bool = True) -> Brought:
        """Return a handler with the state that is frozen at `place`; `after_thaw()` is still to be run.

        Raises:
            SnapshotError: it does not thaw.
            Unholdable: it is more than the state of one handler.
        """
        thawed = self._thaw(place, background)
        shared = [f"{module}.{name}" for module, values in thawed.state["globals"].items() for name in values]
        if shared:
            bound = ", ".join(shared)
            raise Unholdable(
                f"setup() bound globals, of which a process has one for all versions: {bound}; keep them as attributes"
            )
        environ = thawed.state.get("environ", {})
        if others := [name for name, value in environ.items() if os.environ.get(name, value) != value]:
            raise Unholdable(
                "setup() set environment variables, of which a process has one for all versions, otherwise than they "
                f"are here: {', '.join(others)}; keep them as attributes"
            )
        handler = Handler(self._function)
        handler.restore(thawed.state)
        return Brought(place, handler, thawed.mapped_bytes)

    def load(self, place: str) -> Brought:
        """Return the same, with `after_thaw()` run."""
        brought = self.bring(place)
        brought.handler.after_thaw()
        return brought

    def size(self, place: str) -> int:
        """Return the bytes of a snapshot's files. Raises SnapshotError."""
        return sum(record.num_bytes for record in self._manifest(place).all_files)
