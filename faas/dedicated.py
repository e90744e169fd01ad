"""An instance that has its process, and mostly a container, to itself: what `faas serve --bundle` runs.

Whoever calls here has opened the port, since this module takes long to import; the instance is ready after the thaw and
the warm-up. It is told to stop by a signal, and then still serves for a while, since proxies hear of it later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import uvloop

import snapshot
from faas import settings, versions
from faas.bundle import reading
from faas.bundle.fetching import fetch
from faas.bundle.manifest import MANIFEST, Bundle
from faas.bundle.prepared import known
from faas.errors import StartFailed
from faas.instance_messages import Revision
from faas.revision import Loaded
from faas.runtime import STOOD_AT
from faas.server.porter import Held
from faas.settings import Settings

LAME_DUCK_S: Final = 5.0
"""How long it serves after it was told to stop, unless FAAS_LAME_DUCK_S says otherwise."""
_ID_LENGTH: Final = 8
_STARTTIME: Final = 19
"""Where /proc/self/stat says when the process began, of the fields after its name (proc_pid_stat(5), field 22)."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Instance:
    """One whose code is imported, and how long the parts of its start have taken."""

    loaded: Loaded
    phases: dict[str, float]
    lame_duck_s: float

    def serve(self, listen: socket.socket, held: Sequence[Held]) -> int:
        """Serve on a listening socket, and first the requests that are held, until told to stop; return the exit code.

        Raises:
            StartFailed: the function did not start.
        """
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(self, listen, held))


def load(address: str, *, keep_alive_s: float, otherwise: Callable[[tuple[str, ...]], NoReturn]) -> Instance:
    """Import the code of the bundle at an address.

    Where the bundle requires what is not installed, `otherwise` is called with all that it requires.

    Raises:
        BundleError: it cannot be loaded.
        SnapshotError: S3 does not give it.
    """
    phases, begun = _before(), time.monotonic()
    found = settings.read()
    folder = fetch(address, found.bundles)
    bundle = reading.read(folder, here=False)
    if bundle.requirements and _unmet(bundle.requirements):
        otherwise(bundle.requirements)
    loaded = Loaded(_revision(folder, bundle, found), keep_alive_s)
    phases["import"] = time.monotonic() - begun
    return Instance(loaded, phases, LAME_DUCK_S if found.lame_duck_s is None else found.lame_duck_s)


def _before() -> dict[str, float]:
    """Return the phase that is over by now: this process from its begin on, Python's start and our own imports."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:  # nobody tells
        return {}
    begun_s = int(fields[_STARTTIME]) / os.sysconf("SC_CLK_TCK")
    return {"start": time.clock_gettime(time.CLOCK_BOOTTIME) - begun_s}


def _unmet(needed: tuple[str, ...]) -> list[str]:
    from faas import requirements  # slow to import, and nothing to a bundle without any

    return requirements.unmet(needed)


async def _serve(instance: Instance, listen: socket.socket, held: Sequence[Held]) -> int:
    loaded, phases = instance.loaded, instance.phases
    function, runtime = loaded.handler.function, loaded.server.runtime
    runtime.begin(f"{socket.gethostname()}-{os.getpid()}", phases=phases, is_fresh=True)

    def ready() -> None:
        took = ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in phases.items())
        logger.info("%s is ready: %s", function.name, took)

    code = await loaded.server.serve(
        [listen],
        held=held,
        load=lambda: loaded.begin(phases),
        grace_s=function.spec.calls.grace_period_s,
        lame_duck_s=instance.lame_duck_s,
        on_ready=ready,
    )
    if runtime.state == "failed":
        reason = runtime.reason.partition(STOOD_AT)[0]  # where it stood is a whole stack, which is logged
        raise StartFailed(f"{function.name} did not start: {reason}")
    return code


def _revision(folder: Path, bundle: Bundle, found: Settings) -> Revision:
    """Return what the bundle's function runs as here: with a frozen state where there is one."""
    ready = known(folder, bundle)
    target = f"{folder / MANIFEST}:{bundle.name}"
    made = Revision(id=bundle.digest[:_ID_LENGTH], target=target, function=bundle.name)
    if ready is not None:
        made = Revision(
            id=ready.revision,
            target=target,
            function=bundle.name,
            snapshot=ready.snapshot,
            digest=ready.digest,
            env=ready.description.env,
            later=ready.later,
            versions=versions.in_bundle(ready, folder).versions,
        )
    place, why = _snapshot(bundle, made, found)
    if place is None and found.snapshot_uri is None and bundle.spec.get("snapshot", {}).get("uri") is None:
        logger.info("setup() runs: %s", why)
    return msgspec.structs.replace(made, snapshot=place)


def _snapshot(bundle: Bundle, made: Revision, found: Settings) -> tuple[str | None, str]:
    """Return where the frozen state is, of those that are at hand; or None, and in words why there is none."""
    if found.snapshot_dir is not None:
        store = snapshot.LocalStore(found.snapshot_dir)
        try:
            return str(store.folder(store.find(bundle.name, made.digest))), ""
        except (snapshot.SnapshotNotFoundError, OSError) as error:
            if made.snapshot is None:
                return None, str(error)
            logger.info("the snapshot is not in %s: %s", found.snapshot_dir, error)
    return made.snapshot, f"the bundle of {bundle.name} has no snapshot, and no FAAS_SNAPSHOT_DIR or _URI names one"
