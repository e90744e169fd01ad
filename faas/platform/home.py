"""What a platform holds of its `FAAS_HOME` while it runs, and finds of one that was killed there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from faas.address import lock_path, record_path
from faas.errors import PlatformError
from faas.settings import Settings

SOCKETS_LINK = "sockets"
"""In `FAAS_HOME/run`, leads to the folder of the instances' sockets: it has a short path, elsewhere."""
_SOCKETS_PREFIX = "faas-"


def sockets_folder(settings: Settings) -> Path:
    """Return a new folder with a short path, for sockets; the one of a platform that was killed goes."""
    link = settings.run / SOCKETS_LINK
    with contextlib.suppress(OSError):
        before = Path(os.readlink(link))
        if before.name.startswith(_SOCKETS_PREFIX):
            shutil.rmtree(before, ignore_errors=True)
        link.unlink()
    folder = Path(tempfile.mkdtemp(prefix=_SOCKETS_PREFIX))
    link.symlink_to(folder)
    return folder


@contextlib.contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Hold what only one platform on a `FAAS_HOME` can hold; it is let go when the process ends, however it ends.

    Meanwhile the pid is in it, for those who ask before the platform is up.
    """
    settings.run.mkdir(parents=True, exist_ok=True)
    with lock_path(settings).open("a") as lock:  # whoever is refused shall not empty it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlatformError(f"a platform already runs on {settings.home}; `faas down` ends it") from None
        record_path(settings).unlink(missing_ok=True)  # of a platform that was killed
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
