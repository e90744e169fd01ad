"""A bundle's function in this process: its code imported, what travelled by value put together."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import Any

from faas.bundle import reading, rebuilt, spaces
from faas.bundle.errors import BadBundle, BundleError
from faas.bundle.manifest import CODE, PAYLOAD, Bundle
from faas.bundle.rebuilt import MAIN, Rebuilding
from faas.errors import FaasError
from faas.function import Function

_DIGEST_LENGTH = 8

_loaded: dict[str, Function] = {}


def load(folder: Path) -> Function:
    """Return the function of a bundle, the same one each time: a class of the user's is one class in a process.

    The globals of its modules are those of the time when it was made. Everything is checked before any of it runs.

    Raises:
        BadBundle: it is no bundle, not whole, or not as it was made.
        IncompatibleBundle: it was made for another Python, or with other libraries.
        BundleError: its code cannot be imported here, or raised.
    """
    folder = folder.absolute()
    bundle = reading.read(folder)
    key = f"{bundle.digest} {folder}"
    if key not in _loaded:
        _loaded[key] = _load(folder, bundle)
    return _loaded[key]


def _load(folder: Path, bundle: Bundle) -> Function:
    code = folder / CODE
    spaces.enter(code, _tops(bundle))
    try:
        brought = _unpickle(code, bundle, reading.payload(folder, bundle))
        found = brought.get("function")
        if found is None:
            found = _attribute(bundle)
    except FaasError:
        raise
    except (Exception, SystemExit) as error:
        raise BundleError(f"the bundle of {bundle.name} cannot be loaded: {_said(error)}") from error
    if not isinstance(found, Function):
        raise BadBundle(f"{bundle.target} in the bundle of {bundle.name} is no function of ours; make it again")
    return found


def _tops(bundle: Bundle) -> frozenset[str]:
    below = (path.removeprefix(f"{CODE}/") for path in bundle.files if path.startswith(f"{CODE}/"))
    return frozenset(path.partition("/")[0].partition(".")[0] for path in below) - {MAIN}


def _unpickle(code: Path, bundle: Bundle, payload: bytes | None) -> dict[str, Any]:
    """Return what the payload holds, with the globals that it brings in their modules."""
    if payload is None:
        return {}
    digest = bundle.files[PAYLOAD].digest[:_DIGEST_LENGTH]
    made = {name: f"faas_{name.strip('_')}_{digest}" for name in bundle.made}
    brought: dict[str, Any] = rebuilt.unpickle(payload, Rebuilding(code, made))
    for module, values in brought["globals"].items():
        vars(importlib.import_module(module)).update(values)
    return brought


def _attribute(bundle: Bundle) -> Any:
    module, _, name = bundle.target.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _said(error: BaseException) -> str:
    text = traceback.format_exception_only(error)[-1].strip()
    from faas.users_errors import users_line  # the way of errors alone

    line = users_line(error)
    return f"{text} ({line})" if line else text
