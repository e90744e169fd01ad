"""Packages for an image: requirements to exact versions with hashes, and those to a layer, through pip.

    lock = resolve(["numpy>=2"], Target(python="3.11"), cache=folder)
    made = layer(lock, Target(python="3.11"), at="/opt/faas/packages", cache=LayerCache(folder))

A lock is kept for each set of requirements: the same requirements give the same versions until `refresh` is asked for,
and pip does not run. Only wheels are taken, for the machine and the Python of the image and not of this process.

The layer holds bytecode. Nothing can be written in an image at run time, so that without it every start would compile
what it imports. It bears the hash of its source and is never compared with it (PEP 552, unchecked): times do not
matter, and an import has one look at the disk less.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from deploy.image.errors import WheelsError, WrongPlatform
from deploy.image.layer import Layer, of_folder, write
from deploy.image.layer_cache import LayerCache
from deploy.image.manifest import Platform

_FORMAT = 1  # of what is kept: a change of what a layer holds is another number
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_LEGACY_TAGS = {"amd64": ("manylinux2014", "manylinux2010", "manylinux1"), "arm64": ("manylinux2014",)}
_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PYTHONPATH", "PYTHONHOME")
_OPTIONS = ("--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-warn-script-location")
_ERROR = re.compile(r"^ERROR: (?P<what>.+)$", re.MULTILINE)
_NOT_FOUND = re.compile(r"No matching distribution found for (?P<what>.+)")
_CAUSES = re.compile(r"^The conflict is caused by:\n((?:[ \t]+\S.*\n?)+)", re.MULTILINE)
_NOT_REACHED = re.compile(r"connection broken by '(?P<why>[^(']+)")
_ANY_PYTHON = b"#!/usr/bin/env python3\n"

Step = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where packages are to run: CPython of a minor version on a machine whose C library is `glibc` or newer."""

    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    platform: Platform = field(default_factory=Platform)
    glibc: tuple[int, int] = (2, 34)

    def options(self) -> list[str]:
        """Have pip choose wheels for it.

        Raises:
            WrongPlatform: pip cannot choose for it from here.
        """
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if self.python != own:  # pip would take the conditions in requirements to be about its own Python
            raise WrongPlatform(
                f"the image has Python {self.python}, this is Python {own}", f"run this with Python {self.python}"
            )
        architecture = _ARCHITECTURES.get(self.platform.architecture)
        if self.platform.os != "linux" or architecture is None:
            raise WrongPlatform(f"there are no wheels for {self.platform}", "take linux/amd64 or linux/arm64")
        major, minor = self.glibc
        tags = [f"manylinux_{major}_{older}_{architecture}" for older in range(minor, 4, -1)]
        tags += [f"{tag}_{architecture}" for tag in _LEGACY_TAGS[self.platform.architecture]]
        chosen = [option for tag in (*tags, f"linux_{architecture}") for option in ("--platform", tag)]
        return ["--only-binary", ":all:", "--implementation", "cp", "--python-version", self.python, *chosen]


@dataclass(frozen=True)
class Pin:
    """One package: its exact version, the SHA-256 of its archive, and where it is, if not in an index."""

    name: str
    version: str
    sha256: str
    url: str | None = None

    def __str__(self) -> str:
        what = f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"
        return f"{what} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class Lock:
    """Exact packages, sorted by name."""

    pins: tuple[Pin, ...]

    @property
    def text(self) -> str:
        """As pip takes it, `--require-hashes` too."""
        return "".join(f"{pin}\n" for pin in self.pins)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package."""
        return {pin.name: pin.version for pin in self.pins}

    def without(self, provided: Mapping[str, str]) -> "Lock":
        """What is left where these versions are there already."""
        return Lock(tuple(pin for pin in self.pins if provided.get(pin.name) != pin.version))


def resolve(
    requirements: Iterable[str],
    target: Target,
    *,
    cache: Path,
    constraints: Iterable[str] = (),
    find_links: Sequence[Path] = (),
    refresh: bool = False,
    step: Step = lambda text: None,
) -> Lock:
    """The lock of some requirements; pip looks for them unless it did before, or `refresh` is set.

    `constraints` are requirements that hold for whatever comes along; `find_links` folders of wheels to look in, too.

    Raises:
        WheelsError: there are no packages that fit.
        WrongPlatform: pip cannot choose for the target from here.
    """
    wanted, held = sorted(requirements), sorted(constraints)
    if not wanted:
        return Lock(())
    options = target.options()
    path = cache / f"{key_of(wanted, held, options, _wheels_in(find_links), _configuration())}.lock.json"
    if not refresh and (known := _read(path)) is not None:
        return known
    step(f"looking for {', '.join(wanted) if len(wanted) <= 5 else f'{len(wanted)} packages'}")
    with tempfile.TemporaryDirectory(prefix="faas-wheels-") as scratch:
        report = Path(scratch) / "report.json"
        listed, bounds = Path(scratch) / "requirements.txt", Path(scratch) / "constraints.txt"
        listed.write_text("".join(f"{one}\n" for one in wanted))
        bounds.write_text("".join(f"{one}\n" for one in held))
        _pip(
            ["--dry-run", "--report", str(report), "--target", str(Path(scratch) / "none"), *options],
            ["--requirement", str(listed), *(["--constraint", str(bounds)] if held else [])],
            find_links,
        )
        found = _locked(json.loads(report.read_text()))
    cache.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    temporary.write_text(json.dumps([vars(pin) for pin in found.pins], indent=1))
    temporary.replace(path)
    return found


def layer(
    lock: Lock,
    target: Target,
    *,
    at: str,
    cache: LayerCache,
    find_links: Sequence[Path] = (),
    step: Step = lambda text: None,
) -> Layer:
    """The layer of the packages of a lock, installed in the folder `at` of the image.

    `PYTHONPATH` has to name that folder. Scripts are in its `bin`, and are run by the `python3` of the image.

    Raises:
        WheelsError: pip does not install them.
        WrongPlatform: pip cannot install for the target from here.
    """
    options = target.options()
    created_by = f"faas: {len(lock.pins)} packages in {at}"

    def make(path: Path) -> Layer:
        with tempfile.TemporaryDirectory(prefix="faas-wheels-") as scratch:
            site, listed = Path(scratch) / "site", Path(scratch) / "lock.txt"
            site.mkdir()
            if lock.pins:
                step(f"installing {len(lock.pins)} package{'s' if len(lock.pins) > 1 else ''}")
                listed.write_text(lock.text)
                install = ["--no-compile", "--no-deps", "--require-hashes", "--quiet", "--target", str(site)]
                _pip([*install, *options], ["--requirement", str(listed)], find_links)
            _strip(site)
            step("compiling")
            compile_all(site, at)
            step("packing")
            return write(of_folder(site, at), path, created_by=created_by)

    return cache.get(key_of(lock.text, at, created_by, options, sys.version), make)


def compile_all(folder: Path, at: str) -> None:
    """Have bytecode beside the sources in a folder that will be at the path `at`.

    What does not compile, such as a template, is left as it is. By one process and with one seed for hashes, so that
    the same sources give the same bytecode.
    """
    command = [sys.executable, "-P", "-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash"]
    subprocess.run(
        [*command, "-s", str(folder), "-p", at, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def _pip(options: Sequence[str], what: Sequence[str], find_links: Sequence[Path]) -> None:
    """Run `pip install`. It is configured as it always is: by its files and variables, indexes among them."""
    env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    links = [option for folder in find_links for option in ("--find-links", str(folder))]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "pip", "install", *_OPTIONS, *links, *options, *what],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        text=True,
        errors="replace",
    )
    if ended.returncode != 0:
        raise WheelsError(*_explained(ended.stdout, ended.returncode))


def _explained(output: str, status: int) -> tuple[str, str]:
    """What happened, and what to do about it, from all that pip said."""
    missing, unreached, conflict = _NOT_FOUND.search(output), _NOT_REACHED.search(output), _CAUSES.search(output)
    if unreached is not None:
        remedy = "go online, or name a folder of wheels in PIP_FIND_LINKS and set PIP_NO_INDEX=1"
        return f"the package index cannot be reached ({unreached['why']})", remedy
    if conflict is not None:
        causes = ", but ".join(line.strip() for line in conflict[1].splitlines())
        causes = causes.replace("The user requested (constraint)", "the constraints say")
        remedy = "change them; of what faas itself depends on there is but one version in a process"
        return f"requirements contradict each other: {causes.replace('The user requested', 'asked for is')}", remedy
    if missing is not None:
        return (
            f"pip finds no wheel of {missing['what']} for the image's machine and Python",
            "correct its name or version; where it has no wheel, make one on a machine like it (pip wheel --no-deps "
            "NAME --wheel-dir DIR) and name its folder in PIP_FIND_LINKS",
        )
    if "No module named pip" in output:
        return f"{sys.executable} has no pip", "python -m ensurepip"
    errors = _ERROR.findall(output)
    said = " ".join(errors[-2:]) or " ".join(output.split()[-40:])
    return f"pip ended with status {status}: {said}", "correct the requirements"


def _locked(report: Any) -> Lock:
    pins = []
    for one in report["install"]:
        name, version = canonicalize_name(one["metadata"]["name"]), one["metadata"]["version"]
        sha256 = one["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha256 is None:
            remedy = "name a wheel, or a version in an index"
            raise WheelsError(f"{name} comes from {one['download_info']['url']}, which has no hash", remedy)
        pins.append(Pin(name, version, sha256, one["download_info"]["url"] if one["is_direct"] else None))
    return Lock(tuple(sorted(pins, key=lambda pin: pin.name)))


def _read(path: Path) -> Lock | None:
    try:
        return Lock(tuple(Pin(**pin) for pin in json.loads(path.read_text())))
    except (OSError, ValueError, TypeError):
        return None


def _wheels_in(folders: Iterable[Path]) -> list[list[str]]:
    """Names and digests of the wheels in some folders: a version that is built anew is another one."""
    wheels = sorted(path for folder in folders for path in folder.glob("*.whl"))
    return [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in wheels]


def _configuration() -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("PIP_"))


def _strip(site: Path) -> None:
    """Take out what tells of this machine: the interpreter that scripts name, and the paths of local wheels."""
    folder = site / "bin"
    for script in folder.iterdir() if folder.is_dir() else ():
        if script.is_file() and not script.is_symlink():
            content = script.read_bytes()
            if content.startswith(b"#!") and b"python" in content[:1024]:
                # pip writes one line, or, for a path that is too long for one, three that have a shell find Python.
                num_lines = 3 if content.startswith(b"#!/bin/sh\n'''exec'") else 1
                script.write_bytes(_ANY_PYTHON + content.split(b"\n", num_lines)[-1])
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../bin/")))
    for origin in site.glob("*.dist-info/direct_url.json"):
        if '"file:' in origin.read_text():
            origin.unlink()


def key_of(*parts: object) -> str:
    """The name, in a cache, of what is made of these parts."""
    return hashlib.sha256(json.dumps([_FORMAT, *parts]).encode()).hexdigest()
