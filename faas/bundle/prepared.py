"""What a bundle knows of its function since it was made ready elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from faas import modules
from faas.bundle.errors import BadBundle, Unbundleable
from faas.bundle.manifest import MANIFEST, PREPARATION, SNAPSHOT, Bundle
from faas.bundle.reading import file_digest
from snapshot.libraries import normalised
from snapshot.s3_address import is_s3

if TYPE_CHECKING:
    from faas.preparation import Preparation


def known(folder: Path, bundle: Bundle) -> Preparation | None:
    """Return the preparation that a bundle holds, to be run from `folder`; None where it holds none.

    Its sources are the bundle's code, whose digests were looked at when it was read. Of the distributions that were
    imported where it was made it names those alone that matter wherever the bundle runs.

    Raises:
        BadBundle: it is no preparation.
    """
    if PREPARATION not in bundle.files:
        return None
    from faas.preparation import Preparation  # nothing to a bundle without one

    try:
        found = msgspec.json.decode((folder / PREPARATION).read_bytes(), type=Preparation)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadBundle(f"{PREPARATION}: {error}") from None
    origin = msgspec.structs.replace(found.origin, distributions=_needed(found, bundle))
    moved = msgspec.structs.replace(found, code=f"{folder / MANIFEST}:{bundle.name}", origin=origin)
    if f"{SNAPSHOT}/manifest.json" in bundle.files:
        moved = msgspec.structs.replace(moved, snapshot=str(folder / SNAPSHOT))
    return moved


def _needed(found: Preparation, bundle: Bundle) -> dict[str, str]:
    """Return, with their versions, the distributions that the code imports, and those that the state refers to.

    Left out is what was imported by others where the function was made ready, such as an option of a library that
    happened to be installed there, and what an exported state does without.
    """
    spared = {normalised(package) for package in found.later if package not in found.late}
    of_code = {normalised(name) for name in bundle.libraries} - spared
    imported = found.origin.distributions.items()
    return {name: version for name, version in imported if normalised(name) in of_code} | found.libraries


def prepared(folder: Path, bundle: Bundle) -> Preparation | str | None:
    """Return the preparation that a bundle holds, or in words why a platform cannot use it here; None without one.

    Raises:
        BadBundle: it is no preparation.
    """
    found = known(folder, bundle)
    if found is None:
        return None
    seen = found
    if found.origin.python.split(".")[:2] == platform.python_version().split(".")[:2]:  # a patch level is no matter
        origin = msgspec.structs.replace(found.origin, python=platform.python_version())
        seen = msgspec.structs.replace(found, origin=origin)
    return seen.unfit() or found


def travelling(
    preparation: Preparation, target: str, travels: Mapping[str, str], folder: Path | None
) -> tuple[Preparation, dict[str, Path]]:
    """Return a preparation without the paths of this machine, once it is seen to be of the code that travels.

    travels: the files of local modules -> where below `code/` they go

    Other files that were used travel too, if they lie in `folder`: they are given by where they go.

    Raises:
        Unbundleable: a file that was used has changed since, or lies elsewhere.
    """
    moved: dict[str, str] = {}
    beside: dict[str, Path] = {}
    for source, digest in preparation.origin.sources.items():
        file = Path(source)
        if file.is_relative_to(modules.HOME / "handlers"):  # ready ones, there wherever the framework is
            continue
        path = travels.get(source)
        if path is None and folder is not None and file.is_relative_to(folder):
            path = str(file.relative_to(folder))
        if path is None:
            raise Unbundleable(f"{source} was used when {preparation.name} was made ready", "import it as a module")
        if file_digest(file) != digest:
            raise Unbundleable(f"{source} has changed since {preparation.name} was made ready", "make it ready again")
        moved[path] = digest
        beside[path] = file
    is_elsewhere = preparation.snapshot is not None and is_s3(preparation.snapshot)
    return msgspec.structs.replace(
        preparation,
        origin=msgspec.structs.replace(preparation.origin, sources=moved),
        description=msgspec.structs.replace(preparation.description, target=target),
        snapshot=preparation.snapshot if is_elsewhere else None,
        code=None,
        interpreter=None,
        setup_s=0.0,  # of this machine, and another each time
        thaw_s=0.0,
    ), beside
