"""The parts of uvicorn that serve, without its command line.

Uvicorn's package imports its command line, and so click, watchfiles and multiprocessing: a tenth of what an instance
imports, for nothing that it does. They are left out here, and are there as ever for whoever asks uvicorn for them.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

_COMMAND_LINE: Final = "uvicorn.main"
_OF_COMMAND_LINE: Final = ("Server", "main", "run")


def _import_without_command_line() -> None:
    stand_in = ModuleType(_COMMAND_LINE)
    for name in _OF_COMMAND_LINE:
        setattr(stand_in, name, None)
    sys.modules[_COMMAND_LINE] = stand_in
    try:
        package = importlib.import_module("uvicorn")
    finally:
        del sys.modules[_COMMAND_LINE]
    for name in _OF_COMMAND_LINE:
        delattr(package, name)

    def later(name: str) -> Any:
        if name not in _OF_COMMAND_LINE:
            raise AttributeError(f"module 'uvicorn' has no attribute {name!r}")
        real = importlib.import_module(_COMMAND_LINE)
        for each in _OF_COMMAND_LINE:
            setattr(package, each, getattr(real, each))
        return getattr(package, name)

    setattr(package, "__getattr__", later)


if "uvicorn" not in sys.modules:
    _import_without_command_line()

from uvicorn.config import Config  # noqa: E402 (after the command line was left out)
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle  # noqa: E402
from uvicorn.server import ServerState  # noqa: E402

__all__ = ["STATUS_LINE", "Config", "HttpToolsProtocol", "RequestResponseCycle", "ServerState"]
