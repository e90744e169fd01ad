"""The user's code in the user's terms: the line of their own that errors come from, or that it stands at."""

from __future__ import annotations

import linecache
import traceback
from types import FrameType, ModuleType

from faas import modules
from faas.errors import FaasError, TargetError
from faas.targets import Target, shown

_LONGEST = 120


def not_importable(target: Target, error: BaseException) -> TargetError:
    """Return what `error` means for who named `target`: what to correct, and where."""
    if isinstance(error, ModuleNotFoundError) and not target.is_file and _is_within(error.name, target.module):
        return TargetError(f"there is no module {error.name!r} in {target.folder} or installed; or name the file: .py")
    text = str(error) if isinstance(error, FaasError) else traceback.format_exception_only(error)[-1].strip()
    hint = ""
    if isinstance(error, ImportError) and "relative import" in str(error):
        hint = f"; name it as a module of its package: {_as_module(target)}"
    elif isinstance(error, SystemExit):
        text = "it ends the program when imported; put that under if __name__ == '__main__'"
    line = users_line(error)
    return TargetError(f"{shown(target.place)} cannot be imported: {text}{f' ({line})' if line else ''}{hint}")


def users_line(error: BaseException) -> str:
    """Return `FILE:LINE`, the last line of the user's own that an error passed through; empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}:{error.lineno}"
    frames = [(f, line) for f, line in traceback.walk_tb(error.__traceback__) if _is_users(f)]
    return f"{shown(frames[-1][0].f_code.co_filename)}:{frames[-1][1]}" if frames else ""


def stands_at(frame: FrameType | None) -> str:
    """Return where code stands: `FILE:LINE in NAME: TEXT`, at the innermost line of the user's own; empty at none."""
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).strip()[:_LONGEST]
    return f"{shown(file)}:{line} in {frame.f_code.co_qualname}{f': {text}' if text else ''}"


def _as_module(target: Target) -> str:
    """Return the target of a file in a package as one of a module, from the folder that holds the package."""
    folder = target.folder.parent
    parts = [target.folder.name, *([] if target.module == "__init__" else [target.module])]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return shown(folder / ".".join(parts))


def _is_within(missing: str | None, module: str) -> bool:
    return missing is not None and (module == missing or module.startswith(f"{missing}."))


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    module = ModuleType(str(frame.f_globals.get("__name__")))  # a stand-in: a failed import has left `sys.modules`
    module.__file__ = file
    return not file.startswith("<") and modules.is_users(module)
