"""How a command that runs until it is stopped writes what it logs: for people on a terminal, as JSON elsewhere."""

from __future__ import annotations

import datetime
import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import click
import msgspec

FORMATS: Final = ("console", "json")


def option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--log-format`."""
    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        help="How to write log lines; default: console on a terminal, else json.",
    )(command)


def configure(log_format: str | None) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    chosen = log_format or ("console" if sys.stderr.isatty() else "json")
    handler.setFormatter(Json() if chosen == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in ("watchfiles", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class Json(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC), level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()
