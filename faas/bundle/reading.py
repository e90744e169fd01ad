"""A bundle at rest, looked at before anything in it is run: is it whole, is it what it says, can it run here."""

from __future__ import annotations

import logging
import os
import platform
import stat
from pathlib import Path

from blake3 import blake3

from faas.bundle.errors import BadBundle, IncompatibleBundle
from faas.bundle.manifest import MANIFEST, MAX_MANIFEST_BYTES, PAYLOAD, SNAPSHOT, Bundle, decode
from snapshot import libraries

logger = logging.getLogger(__name__)


def read(folder: Path, *, here: bool = True) -> Bundle:
    """Return what a bundle is, once it is seen to be whole, as it was made, and (`here`) of use to this interpreter.

    Nothing of it is imported or unpickled. Of a snapshot in it only its own manifest is digested: that has the digests
    of the rest, which thawing looks at.

    Raises:
        BadBundle: it is no bundle, not whole, or not as it was made.
        IncompatibleBundle: it was made for another Python, or with other libraries.
    """
    bundle = decode(_content(folder / MANIFEST, MAX_MANIFEST_BYTES))
    if here:
        check_python(bundle)
    for path, file in bundle.files.items():
        found = _size(folder, path)
        if found != file.num_bytes:
            raise BadBundle(f"{folder / path} has {found} bytes, not the {file.num_bytes} that {MANIFEST} says")
        if not _is_left_to_thawing(path) and file_digest(folder / path) != file.digest:
            raise BadBundle(f"{folder / path} is not as {MANIFEST} says: its digest is another")
    if here:
        check_libraries(bundle)
    return bundle


def check_python(bundle: Bundle) -> None:
    """Refuse another minor version of Python, whose byte code is another; warn of another patch level.

    Raises:
        IncompatibleBundle: names both versions.
    """
    running = platform.python_version()
    if bundle.python.split(".")[:2] != running.split(".")[:2]:
        raise IncompatibleBundle(
            f"the bundle of {bundle.name} was built with Python {bundle.python}, and this is Python {running}; "
            "make it again with this one, or run it with that"
        )
    if bundle.python != running:
        logger.warning("the bundle of %s was built with Python %s, running %s", bundle.name, bundle.python, running)


def check_libraries(bundle: Bundle) -> None:
    """Refuse where what the payload refers to is of another major version or not there; warn of other differences.

    Raises:
        IncompatibleBundle: names each with both versions.
    """
    different = libraries.mismatches(bundle.libraries)
    refused = {
        name: (made, now)
        for name, (made, now) in different.items()
        if name in bundle.referred and (now is None or _major(made) != _major(now))
    }
    if refused:
        raise IncompatibleBundle(
            f"the bundle of {bundle.name} was built with {_listed(refused)}; install what it was built with "
            "(requirements=), or make it again here"
        )
    if different:
        logger.warning("the bundle of %s was built with %s", bundle.name, _listed(different))


def _listed(different: dict[str, tuple[str, str | None]]) -> str:
    return ", ".join(
        f"{name} {made} ({f'{now} is installed' if now else 'not installed'})"
        for name, (made, now) in sorted(different.items())
    )


def _major(version: str) -> tuple[str, ...]:
    """Return what changes when a version may break its users: the first number, before 1.0 the second too."""
    parts = version.split(".")
    return tuple(parts[:2]) if parts[0] == "0" else tuple(parts[:1])


def _is_left_to_thawing(path: str) -> bool:
    return path.startswith(f"{SNAPSHOT}/") and path != f"{SNAPSHOT}/manifest.json"


def payload(folder: Path, bundle: Bundle) -> bytes | None:
    """Return the payload's bytes, which are those that the digest is of; None where the bundle has none.

    Raises:
        BadBundle: they are not as they were made.
    """
    file = bundle.files.get(PAYLOAD)
    if file is None:
        return None
    content = _content(folder / PAYLOAD, file.num_bytes)
    if blake3(content).hexdigest() != file.digest:
        raise BadBundle(f"{folder / PAYLOAD} is not as {MANIFEST} says: its digest is another")
    return content


def file_digest(path: Path) -> str:
    """Return the BLAKE3 digest of a file's content. Raises OSError."""
    hasher = blake3()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            hasher.update(piece)
    return hasher.hexdigest()


def _size(folder: Path, path: str) -> int:
    """Return the size of a file of the bundle; one that is reached by a link out of it is none of it."""
    try:
        found = os.stat(folder / path)
        inside = (folder / path).resolve().is_relative_to(folder.resolve())
    except OSError as error:
        raise BadBundle(f"{folder / path} is not there: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode) or not inside:
        raise BadBundle(f"{folder / path} is no file of the bundle; make it again")
    return found.st_size


def _content(path: Path, limit_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        raise BadBundle(f"{path} cannot be read: {error.strerror}; name the folder of a bundle") from None
    if len(content) > limit_bytes:
        raise BadBundle(f"{path} has more than {limit_bytes} bytes")
    return content
