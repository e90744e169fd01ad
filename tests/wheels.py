"""Tiny packages as wheels in a folder, for a pip that is kept off every network."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest


def write_wheel(folder: Path, name: str, version: str, *, requires: Iterable[str] = (), code: str = "") -> None:
    """Write the wheel of a package `name` with one module of that name, which knows its `VERSION`."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {required}\n" for required in requires)
    files = {
        f"{name}/__init__.py": f"VERSION = {version!r}\n{code}",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in (files | {f"{info}/RECORD": record}).items():
            wheel.writestr(path, content)


def only_from(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have pip find packages in `folder` and nowhere else, whatever this machine's own configuration says."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
