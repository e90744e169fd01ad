"""A bundle as one file: a tar whose bytes are equal for equal bundles, and which says first what will come.

Its first member is `bundle.json`; the others are the files that it lists, in the order of their names. Nothing else is
taken out of one: no link, no device, no path, no byte more than what is listed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from faas.bundle import reading
from faas.bundle.errors import BadBundle
from faas.bundle.manifest import MANIFEST, MAX_MANIFEST_BYTES, Bundle, decode

_STAGING: Final = ".staging-"


def pack(folder: Path, archive: Path) -> Bundle:
    """Write a bundle as one file, which appears whole or not at all. Raises BadBundle, OSError."""
    bundle = reading.read(folder, here=False)
    archive.parent.mkdir(parents=True, exist_ok=True)
    temporary = archive.with_name(f"{_STAGING}{os.getpid()}-{archive.name}")
    try:
        with tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as tar:
            content = (folder / MANIFEST).read_bytes()
            tar.addfile(_member(MANIFEST, len(content)), io.BytesIO(content))
            for path, file in sorted(bundle.files.items()):
                with (folder / path).open("rb") as source:
                    tar.addfile(_member(path, file.num_bytes), source)
        temporary.replace(archive)
    finally:
        temporary.unlink(missing_ok=True)
    return bundle


def _member(path: str, num_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = num_bytes, 0o644
    return member


def unpack(archive: Path, into: Path) -> Bundle:
    """Make the folder `into`, which is not there, the bundle that a file holds; whole or not at all.

    Raises:
        BadBundle: it holds none, or something else than it says.
        OSError: it cannot be read or written.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=into.parent))
    staging.chmod(0o755)
    try:
        with _opened(archive) as tar:
            bundle = _first(tar, archive, staging)
            _others(tar, archive, staging, bundle)
        reading.read(staging, here=False)
        staging.rename(into)
        return bundle
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r:") as tar:  # ":" refuses what is compressed, which could be any size
            yield tar
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BadBundle(f"{archive} is no archive of a bundle: {error}; make it with faas bundle") from None


def _first(tar: tarfile.TarFile, archive: Path, folder: Path) -> Bundle:
    member = tar.next()
    if member is None or member.name != MANIFEST or member.size > MAX_MANIFEST_BYTES:
        raise BadBundle(f"{archive} does not begin with {MANIFEST}; make it with faas bundle")
    content = _content(tar, member, archive).read()
    (folder / MANIFEST).write_bytes(content)
    return decode(content)


def _others(tar: tarfile.TarFile, archive: Path, folder: Path, bundle: Bundle) -> None:
    waiting = dict(bundle.files)
    while (member := tar.next()) is not None:
        file = waiting.pop(member.name, None)
        if file is None or member.size != file.num_bytes:
            raise BadBundle(f"{archive} holds {member.name!r} of {member.size} bytes, which {MANIFEST} does not list")
        (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / member.name).open("xb") as target:
            shutil.copyfileobj(_content(tar, member, archive), target, 1 << 20)
    if waiting:
        raise BadBundle(f"{archive} lacks {', '.join(sorted(waiting)[:3])}; make it again")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path) -> IO[bytes]:
    content = tar.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
    if content is None:
        raise BadBundle(f"{archive} holds {member.name!r}, which is no plain file")
    return content
