"""The sources of code that goes by value, so that tracebacks show its lines wherever it runs."""

from __future__ import annotations

import linecache
from collections.abc import Mapping


def of(files: Mapping[str, str]) -> dict[str, bytes]:
    """Return, by path in the bundle, what Python knows of the files or cells that code was compiled from."""
    found = {}
    for filename, path in files.items():
        lines = linecache.getlines(filename)
        found[path] = "".join(lines).encode() if lines else b"# the source of this was not known\n"
    return found
