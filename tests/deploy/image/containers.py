"""Images as containers, by hand: layers into a root in their order, and the image's own command started in it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.image import Connection, File, Image, inspect, layer
from deploy.image.reference import Reference
from deploy.image.registry import Registries

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_LEFT_OUT = ("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "site-packages")
_INSIDE = """
import json, os, sys, warnings  # which os imports when it executes, where the root may have it elsewhere
root, folder, uid, gid, env, words = json.loads(sys.argv[1])
os.chroot(root)
os.chdir(folder)
os.setgroups([])
os.setgid(gid)
os.setuid(uid)
os.execvpe(words[0], words, env)
"""
_READ_ONLY = (
    "mount --make-rprivate / && mount --bind {root} {root} && mount -o remount,bind,ro {root} "
    "&& mount -t tmpfs -o mode=1777 tmpfs {root}/tmp && mount -t proc proc {root}/proc && exec {command}"
)


def python_files(*imports: str) -> list[File]:
    """This interpreter with its standard library, and what both load, as at /usr/local of an image.

    Given names of modules, of the library only what they import: that is small.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    stdlib, program = Path(os.__file__).parent, Path(sys.executable).resolve()
    at = f"/usr/local/lib/{version}"
    files = [
        File(f"/usr/local/bin/{version}", program, 0o755),
        File("/usr/local/bin/python3", target=version, mode=0o777),
        File("/tmp", mode=0o1777),
        File("/proc", mode=0o555),
    ]
    if imports:
        files += [File(f"{at}/{path.relative_to(stdlib)}", path) for path in _loaded_by(program, stdlib, imports)]
    else:
        files += layer.of_folder(stdlib, at, skip=_is_left_out)
    extensions = [file.source for file in files if isinstance(file.source, Path) and file.source.suffix == ".so"]
    return files + libraries_of([program, *extensions])


def _loaded_by(program: Path, stdlib: Path, imports: Sequence[str]) -> list[Path]:
    """The files of the standard library that are loaded once some modules are imported, without site."""
    loaded = "print(*(getattr(m, '__file__', '') for m in sys.modules.values()), sep='\\n')"
    code = f"import {', '.join(imports)}, sys; {loaded}"
    told = subprocess.run([program, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    found = {Path(line) for line in told.splitlines() if line.startswith(f"{stdlib}/")}
    return sorted({*found, stdlib / "os.py", *(stdlib / "encodings").glob("*.py")})


def _is_left_out(below: str) -> bool:
    first = below.partition("/")[0]
    return first in _LEFT_OUT or first.startswith("config-") or "__pycache__" in below


def libraries_of(binaries: Sequence[Path], *, but_in: Path | None = None) -> list[File]:
    """The shared libraries that some binaries load, where the loader looks, but for those in a folder `but_in`."""
    listed = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True).stdout
    left_out = (sysconfig.get_path("stdlib"), f"{but_in}/")
    places = sorted({os.path.normpath(found) for found in _LIBRARY.findall(listed)})
    return [File(place, Path(place).resolve(), 0o755) for place in places if not place.startswith(left_out)]


def unpack(image: str, root: Path, connection: Connection) -> Image:
    """Pull an image and unpack its layers, whiteouts and all (OCI image specification, "Image Layer Filesystem")."""
    reference, found = inspect(image, connection=connection)
    root.mkdir()
    with Registries(connection) as registries:
        repository = registries.repository(Reference.parse(reference))
        for number, blob in enumerate(found.manifest.layers):
            path = root.with_name(f"{root.name}.{number}")
            repository.save(blob, path)
            with tarfile.open(path) as tar:
                _apply(tar, root)
            path.unlink()
    return found


def _apply(tar: tarfile.TarFile, root: Path) -> None:
    made: set[str] = set()
    for member in tar:
        folder, _, name = member.name.rpartition("/")
        if name == ".wh..wh..opq":
            for child in (root / folder).iterdir():
                if str(child.relative_to(root)) not in made:
                    _remove(child)
        elif name.startswith(".wh."):
            _remove(root / folder / name.removeprefix(".wh."))
        else:
            place = root / member.name
            if place.is_symlink() or (place.exists() and not (place.is_dir() and member.isdir())):
                _remove(place)
            tar.extract(member, root, filter="fully_trusted")
            made.add(member.name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextlib.contextmanager
def started(
    image: Image, root: Path, arguments: Sequence[str] = (), *, read_only: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """The image's entrypoint in its root, as its user, with its variables; `arguments` in place of its command.

    It is process 1 of its own. `read_only` has it write to /tmp alone.
    """
    import json
    import shlex

    settings = image.settings
    words = [*(settings.get("Entrypoint") or ()), *(arguments or settings.get("Cmd") or ())]
    uid, _, gid = (settings.get("User") or "0:0").partition(":")
    task = [str(root), settings.get("WorkingDir") or "/", int(uid), int(gid or 0), image.environment, words]
    command = [sys.executable, "-c", _INSIDE, json.dumps(task)]
    if read_only:
        command = ["sh", "-c", _READ_ONLY.format(root=shlex.quote(str(root)), command=shlex.join(command))]
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def can_run() -> bool:
    """Whether this process may do all that."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode == 0
