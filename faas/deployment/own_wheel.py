"""This framework as a wheel, from the files that run here: no network, no build, the same bytes for the same files."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Final

from faas import modules
from faas.errors import NotPrepared

_FIRST_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can hold."""
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: faas\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path.

    Raises:
        NotPrepared: this framework is not installed, so nobody knows what it depends on.
    """
    try:
        ours = metadata.distribution("faas")
    except metadata.PackageNotFoundError:
        raise NotPrepared("faas is not installed, and so cannot be put into an image: pip install it") from None
    info = f"faas-{ours.version}.dist-info"
    contents = {str(path.relative_to(modules.HOME)): path.read_bytes() for path in _files()}
    contents[f"{info}/METADATA"] = (ours.read_text("METADATA") or ours.read_text("PKG-INFO") or "").encode()
    contents[f"{info}/entry_points.txt"] = (ours.read_text("entry_points.txt") or "").encode()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    record = "".join(_line(name, content) for name, content in contents.items()) + f"{info}/RECORD,,\n"
    path = folder / f"faas-{ours.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in {**contents, f"{info}/RECORD": record.encode()}.items():
            entry = zipfile.ZipInfo(name, _FIRST_DATE)
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def _files() -> list[Path]:
    """All files of our packages, the ready handlers among them; no bytecode."""
    packages = (modules.HOME / name for name in (*modules.OURS, "handlers"))
    found = (path for package in packages for path in package.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc")


def _line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
