"""What instances log, for people. Pure."""

import json
from typing import Final

_OURS: Final = {"time", "level", "logger", "message"}
_NO_LOG: Final = ("unable to retrieve container logs for ", "failed to try resolving symlinks in path ")
"""How the kubelet begins what it answers in place of a log that is there no more."""
_ERROR: Final = "error: "
_NEXT: Final = "next: "
_LONGEST: Final = 300
"""Of a line in a message: the log below has it in full."""


def plain(line: str) -> str:
    """Return a line as people read it: `WARNING its.logger: what it says`, and the traceback below.

    That is for lines as instances log them, in JSON. What a function prints stays as it is, JSON of its own too.
    """
    if not line.startswith("{"):
        return line
    try:
        found = json.loads(line)
    except ValueError:
        return line
    if found.keys() - {"traceback"} != _OURS or not all(isinstance(value, str) for value in found.values()):
        return line
    said = f"{found['level'].upper()} {found['logger']}: {found['message']}"
    return f"{said}\n{found['traceback']}" if "traceback" in found else said


def last_words(text: str) -> str:
    """Return the line of a log that says why its process has ended: the last but for what a command says to do next."""
    lines = [line.strip() for line in plain_lines(text) if not line.startswith(_NEXT)]
    said = lines[-1].removeprefix(_ERROR) if lines else ""
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


def plain_lines(text: str) -> list[str]:
    """Return the lines of a log, plain; none where the kubelet only says that it has no log."""
    lines = [line for line in text.rstrip().split("\n") if not line.startswith(_NO_LOG)]
    return [part.rstrip() for line in lines for part in plain(line).split("\n") if part.strip()]
