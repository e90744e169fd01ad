"""How the rows of a run are shown: a table for a terminal, a document for a file."""

import datetime
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.rows import Row, shown

_PACKAGES = (
    *("faas", "torch", "transformers", "tokenizers", "safetensors", "onnxruntime", "numpy"),
    *("starlette", "uvicorn", "uvloop", "httptools", "msgspec", "aiohttp", "litserve"),
)

_HALT_POLL = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
_GOVERNOR = Path("/sys/devices/system/cpu/cpuidle/current_governor")


def table(title: str, rows: Iterable[Row]) -> Table:
    """Return the rows as a table; what falls short is red, what holds is green."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column("figure", overflow="fold")
    for heading in ("value", "unit", "bar", "holds"):
        made.add_column(heading, justify="right" if heading == "value" else "left", no_wrap=True)
    for row in rows:
        value = "-" if row.value is None else shown(row.value)
        made.add_row(row.metric, value, row.unit, "" if row.bar is None else str(row.bar), _holds(row))
    return made


def _holds(row: Row) -> Text:
    if row.holds is None:
        return Text("")
    return Text("yes", "green") if row.holds else Text("NO", "bold red")


def document(area: str, rows: Sequence[Row], *, quick: bool) -> dict[str, Any]:
    """Return the rows with what is needed to read them later: machine, versions, date (ISO 8601, UTC)."""
    return {
        "area": area,
        "quick": quick,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "rows": [row.to_dict() for row in rows],
    }


def machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, cores this process may use, memory, kernel, load at this moment.

    And for how long a virtual machine's core waits for work before it is given back to its host, where that is known.
    """
    return {
        "cpu": _cpu_model(Path("/proc/cpuinfo").read_text()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": platform.release(),
        "load_average_1min": os.getloadavg()[0],
        "guest_halt_poll_ns": guest_halt_poll_ns(),
    }


def guest_halt_poll_ns() -> int | None:
    """Return the kernel's setting of that name; None where cores are halted in another way."""
    try:
        governor = _GOVERNOR.read_text().strip()
        return int(_HALT_POLL.read_text()) if governor == "haltpoll" else None
    except OSError:
        return None


def warning() -> str | None:
    """Return a sentence on what makes figures of this machine worse than those of others, if there is such a thing."""
    if guest_halt_poll_ns() != 0:
        return None
    return (
        f"this virtual machine gives a core back to its host as soon as it has nothing to do, so that waking a process "
        f"takes several times as long, and more CPU; for figures like those of others: echo 200000 > {_HALT_POLL} "
        f"(Linux's default)"
    )


def _cpu_model(cpuinfo: str) -> str:
    names = (line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that the figures depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
