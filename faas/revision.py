"""One revision of a function in a process: its code loaded and its state thawed, ahead of need in a zygote, or at need.

A hot zygote runs `preload`; an instance forked from it finds everything in place and calls `load` for nothing. An
instance that was forked from a zygote without it, or started by exec, loads for itself: the same code runs either way.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import snapshot
from faas import pulled, rehearsal, settings, targets
from faas.function import Function
from faas.handler import Handler
from faas.instance_messages import Revision
from faas.later import importing_later
from faas.runtime import Runtime
from faas.server import KEEP_ALIVE_S
from faas.server.serve import Server
from faas.spec import LoadMode
from snapshot import Thawed, sharing
from snapshot.collection import paused_collection

if TYPE_CHECKING:
    from faas.engine.versions.supply import Supply

logger = logging.getLogger(__name__)


class Loaded:
    """A revision in this process: its handler, and the server that an instance of it will be.

    `thawed` tells whether the handler has its state already, `rehearsed` whether it has answered the example inputs.
    """

    def __init__(self, revision: Revision, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        os.environ.update(revision.env)
        log_to_stderr()
        self.revision = revision
        with importing_later(revision.later):
            functions = targets.load(revision.target)
        self.handler = Handler(next(f for f in functions if f.name == revision.function))
        function = self.handler.function
        self._supply = None if revision.versions is None else supply_of(revision, revision.versions, function)
        debug = settings.read().debug
        runtime = Runtime(function, self.handler, version=revision.id, supply=self._supply, debug=debug)
        self.server = Server(runtime, keep_alive_s)
        self._place = pulled.place(revision.snapshot, self.handler.function.spec.snapshot.uri)
        self.thawed = False
        self.rehearsed = False
        self.mapped_bytes = 0

    @property
    def keeps_state(self) -> bool:
        """Whether there is a frozen state to take the place of `setup()`."""
        return self._place is not None and self.handler.function.spec.snapshot.mode == "state"

    def thaw(self, *, background: bool = True) -> None:
        """Give the handler its frozen state; `after_thaw()` is left to each instance.

        background: whether a thread may still be reading it ahead when this returns
        Raises SnapshotError.
        """
        assert self._place is not None
        thawed = thaw(self.revision, self._place, self.handler.function.spec.load, background=background)
        self.handler.restore(thawed.state)
        self.mapped_bytes = thawed.mapped_bytes
        self.thawed = True
        self._know_times(self._place)

    def share_tensors(self) -> None:
        """Have the tensors that `setup()` made lie in the frozen ones, where those are kept. Raises SnapshotError."""
        if self._place is not None and self.handler.function.spec.snapshot.mode == "weights":
            thawed = thaw(self.revision, self._place, self.handler.function.spec.load, background=True)
            self.mapped_bytes = sharing.share(self.handler.reachable(), thawed.state)
            self._know_times(self._place)

    def _know_times(self, place: str) -> None:
        times = self.server.runtime.times
        if times is not None and not pulled.is_remote(place):
            times.read(Path(place))

    def bring_versions(self) -> None:
        """Have the versions that are to be held now in a zygote; one that cannot be is left to each instance."""
        if self._supply is not None:
            from faas.engine.versions import ahead  # nothing to a function without versions

            rehearse = rehearsal.rehearse if self.revision.rehearse else None
            ahead.bring(self._supply, self.handler.function, str(self.revision.versions), rehearse)

    def begin(self, phases: dict[str, float]) -> None:
        """Make the handler's state: it is there, or the snapshot is thawed, or `setup()` runs; say how long it took.

        Raises:
            Exception: `setup()` or `after_thaw()` did.
        """
        if self._supply is not None:
            return  # each version has a state of its own
        begun = time.monotonic()
        if not self.thawed and self.keeps_state:
            try:
                self.thaw()
            except snapshot.SnapshotError as error:
                print(f"faas: setup() runs, since the snapshot does not thaw: {error}", file=sys.stderr, flush=True)
                begun = time.monotonic()
        if not self.thawed:
            if (num_threads := settings.read().num_threads) is not None:
                from faas import onnx_threads  # nothing to an instance that thaws

                onnx_threads.limit(num_threads)
            self.handler.setup()
            try:
                self.share_tensors()
            except snapshot.SnapshotError as error:
                print(f"faas: tensors are this instance's own: {error}", file=sys.stderr, flush=True)
        self.handler.after_thaw()
        phases["thaw" if self.thawed else "setup"] = time.monotonic() - begun
        self.server.runtime.metrics.snapshot_bytes = self.mapped_bytes
        gc.freeze()  # what is shared with a zygote or mapped is never scanned, and so never copied

    def rehearse(self) -> None:
        """Answer the example inputs here, so that no instance forked from this process has to, unless one fails."""
        try:
            rehearsal.rehearse(self.handler)
        except Exception:
            logger.exception("an example input failed; each instance answers them itself")
        else:
            self.rehearsed = True


def thaw(revision: Revision, place: str, load: LoadMode, *, background: bool) -> Thawed:
    """Return what was frozen at `place`, a folder or an address in S3.

    `load`, and whether it may go on in the background, are as `snapshot.thaw` has them.

    Raises:
        SnapshotError: it does not thaw, or is not what it was.
    """
    if pulled.is_remote(place):
        return pulled.thaw(place, revision, load, background=background)
    found = settings.read()
    return snapshot.thaw(
        Path(place),
        expect_digest=revision.digest,
        load=found.snapshot_load or load,
        background=background,
        num_threads=found.num_threads,
    )


def supply_of(revision: Revision, place: str, function: Function) -> Supply:
    """Return what brings the versions at `place` into memory."""
    from faas.engine.versions import source, supply  # nothing to a function without versions

    one = msgspec.structs.replace(revision, digest=None)
    return supply.Supply(
        function,
        source.find(place),
        lambda at, background: thaw(one, at, function.spec.load, background=background),
        pulled.manifest_at,
    )


def log_to_stderr() -> None:
    """Send what is logged to the function's log, by way of standard error, unless the user's code has seen to it.

    In a hot zygote this costs no instance anything; setting a level looks at every logger there is.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log each call to another function


_preloaded: Loaded | None = None


def preload(payload: bytes) -> None:
    """Have the revision that `payload` (as JSON) says in this process, for all that are forked from it.

    Raises:
        TargetError: its code cannot be loaded.
        SnapshotError: its state does not thaw.
    """
    global _preloaded
    from faas import library_threads  # nothing to an instance that is not forked from this

    loaded = Loaded(msgspec.json.decode(payload, type=Revision))
    if loaded.revision.versions is not None:
        loaded.bring_versions()
    elif loaded.keeps_state:
        loaded.thaw(background=False)  # a zygote has one thread
        if loaded.revision.rehearse:
            loaded.rehearse()
    library_threads.end()
    _preloaded = loaded


def is_preloaded() -> bool:
    """Tell whether this process, or the zygote that it was forked from, has a revision ahead of need."""
    return _preloaded is not None


def load(revision: Revision) -> Loaded:
    """Return the revision in this process: as it was preloaded, or its code loaded now, without collecting garbage.

    Raises:
        TargetError: its code cannot be loaded.
    """
    if _preloaded is not None and _preloaded.revision == revision:
        return _preloaded
    with paused_collection():
        return Loaded(revision)
