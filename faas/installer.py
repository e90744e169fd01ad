"""pip, run for an environment: its progress in steps, and why it failed in one sentence."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from faas.errors import NotPrepared

_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PYTHONPATH", "PYTHONHOME")
"""Variables that would have packages land, or be found, somewhere else than in the environment."""
_OPTIONS = ("--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-warn-script-location")
_DOWNLOAD = re.compile(r"^\s*Downloading (?:\S*/)?(?P<file>[^\s/]+) (?P<size>\(.+\))")
_BUILD = re.compile(r"^\s*Building wheel for (?P<name>\S+)")
_INSTALL = re.compile(r"^Installing collected packages: (?P<names>.+)")
_CAUSES = re.compile(r"The conflict is caused by:\n(?P<causes>(?:[ \t]+\S.*\n)+)")
_NOT_FOUND = re.compile(r"No matching distribution found for (?P<what>.+)")
_NOT_REACHED = re.compile(r"connection broken by '(?P<why>[^(']+)|Connection to (?P<host>\S+) timed out")
_ERROR = re.compile(r"^ERROR: (?P<what>.+)$", re.MULTILINE)
_MAX_NAMED = 5


def has_pip() -> bool:
    """Tell whether this interpreter has a pip of its own, which can install into other environments."""
    return importlib.util.find_spec("pip") is not None


def install(python: Path, requirements: Sequence[str], log: Path, step: Callable[[str], None]) -> None:
    """Have pip install `requirements` into the environment of `python`; all that it says goes to the file `log`.

    It is configured as pip always is: by its files and variables, constraints and indexes among them.

    Raises:
        NotPrepared: it failed; says why.
    """
    runs = [sys.executable, "-P", "-m", "pip", "--python", str(python)] if has_pip() else [str(python), "-m", "pip"]
    env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    with (
        log.open("w") as kept,
        subprocess.Popen(
            [*runs, "install", *_OPTIONS, *requirements],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env | {"PYTHONUNBUFFERED": "1"},
            text=True,
            errors="replace",
            close_fds=False,  # the lock goes with it: it is held until nobody writes here any more
        ) as pip,
    ):
        assert pip.stdout is not None
        for line in pip.stdout:
            kept.write(line)
            kept.flush()
            text = step_of(line)
            if text is not None:
                step(text)
    if pip.returncode != 0:
        raise NotPrepared(f"{explain(log.read_text(errors='replace'), pip.returncode)} (pip's own words: {log})")


def step_of(line: str) -> str | None:
    """Return what a line of pip's output says in a few words, where it begins something that takes its time."""
    if found := _DOWNLOAD.match(line):
        file = found["file"]
        return None if file.endswith(".metadata") else f"downloading {'-'.join(file.split('-')[:2])} {found['size']}"
    if found := _BUILD.match(line):
        return f"building {found['name']}"
    if found := _INSTALL.match(line):
        names = found["names"].split(", ")
        return f"installing {', '.join(names) if len(names) <= _MAX_NAMED else f'{len(names)} packages'}"
    return None


def explain(output: str, status: int) -> str:
    """Return why pip failed and what to do about it, from all that it said."""
    if found := _CAUSES.search(output):
        causes = [_cause(line.strip()) for line in found["causes"].splitlines()]
        return f"requirements contradict each other: {', but '.join(causes)}; change requirements="
    unreached = _NOT_REACHED.search(output)
    missing = _NOT_FOUND.search(output)
    if unreached is not None:
        why = unreached["why"] or f"{unreached['host']} does not answer"
        what = f" to look for {missing['what']}" if missing else ""
        return (
            f"the package index cannot be reached{what} ({why}); go online, or name a folder of wheels in "
            "PIP_FIND_LINKS and set PIP_NO_INDEX=1"
        )
    if missing is not None:
        return f"pip finds no {missing['what']}; correct its name or version in requirements="
    errors = _ERROR.findall(output)
    return f"pip failed: {errors[-1]}" if errors else f"pip ended with status {status}"


def _cause(line: str) -> str:
    return line.replace("The user requested (constraint) ", "the constraints say ").replace(
        "The user requested ", "requirements= has "
    )
