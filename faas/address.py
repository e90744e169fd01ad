"""Where a function is served, as a caller finds it.

In this order: the platform that this process runs in; `FAAS_URL`, the base of a platform (`/f/NAME/` is added) or a
template that holds `{name}`; this machine's platform, which records itself while it runs.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import msgspec

from faas import settings
from faas.errors import PlatformError, SettingError
from faas.settings import Settings

RECORD_FILE: Final = "platform.json"
LOCK_FILE: Final = "lock"


class Record(msgspec.Struct, frozen=True):
    """The running platform of this machine: its process, its base URL, the path of its control socket."""

    pid: int
    url: str
    control: str


@dataclass(frozen=True)
class Address:
    """Where one function is called: a URL that ends with a slash, and the Unix socket it is on, if it is on one.

    `host` is the name that it goes by where that is another than the URL's: behind an ingress that has no DNS.
    """

    url: str
    socket: str | None = None
    host: str | None = None

    @property
    def title(self) -> str:
        """How the address is called in messages."""
        return self.socket or self.url


def find(name: str, found: Settings) -> Address:
    """Return where the function `name` is served.

    Raises:
        SettingError: `FAAS_URL` is no URL.
        PlatformError: it is served nowhere that can be found.
    """
    if found.platform_socket is not None:
        return Address(f"http://platform/f/{name}/", found.platform_socket)
    if found.url is not None:
        return Address(_below(found.url, name))
    record = read_record(found)
    if record is None:
        raise PlatformError(
            f"{name} is served nowhere that can be found: no platform runs here, and {settings.URL} is not set"
        )
    return Address(_below(record.url, name))


def _below(url: str, name: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise SettingError(f"{settings.URL}={url!r}: write a URL such as http://127.0.0.1:8000")
    if "{name}" in url:
        return url.replace("{name}", name).rstrip("/") + "/"
    return f"{url.rstrip('/')}/f/{name}/"


def record_path(found: Settings) -> Path:
    """Return where a running platform records itself."""
    return found.run / RECORD_FILE


def read_record(found: Settings) -> Record | None:
    """Return the record of this machine's platform, or None where none runs."""
    try:
        record = msgspec.json.decode(record_path(found).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None
    return record if holder(found) == record.pid else None


def lock_path(found: Settings) -> Path:
    """Return what a platform holds locked from before it makes its functions ready until it ends. Its pid is in it."""
    return found.run / LOCK_FILE


def holder(found: Settings) -> int | None:
    """Return the process that holds the lock, that of the platform which runs or comes up; None where nobody does.

    A pid alone would not tell: that of a platform which was killed may be another process's by now, in a container that
    was started again the asker's own.
    """
    try:
        with lock_path(found).open() as lock:
            pid = int(lock.read())
            # A pid that ended is not asked about: for a moment the question itself would keep a new platform out.
            return pid if _runs(pid) and _is_held(lock) else None
    except (OSError, ValueError):
        return None


def _is_held(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as another user
        return True
    return True
