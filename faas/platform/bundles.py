"""A bundle: a folder that holds one function, or the functions of one file, so that any platform can run it.

    NAME/bundle.json          what it is, see `Bundle`; put there last, it says that the rest is there
    NAME/app.py ...           the code, and what it reads beside it
    NAME/preparation.json     where it was made ready elsewhere: its preparation, as a store holds it
    NAME/snapshot/            the frozen state that the preparation names, unless that is in S3

Without a preparation, or with one that does not fit this machine's Python and packages, it is made ready here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from faas.errors import PlatformError
from faas.preparation import Preparation, file_digest
from faas.targets import Target

BUNDLE_FILE: Final = "bundle.json"
PREPARATION_FILE: Final = "preparation.json"
SNAPSHOT_FOLDER: Final = "snapshot"
FORMAT: Final = 1


class BundleError(PlatformError):
    """A bundle is not whole, or not what it says."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `bundle.json` says: the target, relative to the folder, and of files that must be there the BLAKE3 digests.

    Only with digests can a bundle that is replaced file by file be told from one that is half replaced.
    """

    format: int
    target: str
    files: dict[str, str] = {}


def read(folder: Path) -> Bundle:
    """Return what a bundle is, once it is whole.

    Raises:
        BundleError: it has no `bundle.json`, that says nothing this version understands, or a file is not there yet.
    """
    try:
        bundle = msgspec.json.decode((folder / BUNDLE_FILE).read_bytes(), type=Bundle)
    except OSError:
        raise BundleError(f"it has no {BUNDLE_FILE}") from None
    except msgspec.MsgspecError as error:
        raise BundleError(f"{BUNDLE_FILE}: {error}") from None
    if bundle.format != FORMAT:
        raise BundleError(f"{BUNDLE_FILE} is of format {bundle.format}; this version reads {FORMAT}")
    for name, digest in bundle.files.items():
        if file_digest(folder / name) != digest:
            raise BundleError(f"{name} is not there, or not as {BUNDLE_FILE} says")
    if Path(bundle.target).is_absolute() or ".." in Path(bundle.target).parts:
        raise BundleError(f"{BUNDLE_FILE}: the target {bundle.target!r} must lie in the bundle")
    return bundle


def content_digest(folder: Path) -> str:
    """Return the digest of all files of a folder and their names."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = [(str(path.relative_to(folder)), file_digest(path)) for path in paths]
    return blake3(msgspec.json.encode(listed)).hexdigest()


def prepared(folder: Path, bundle: Bundle) -> Preparation | str | None:
    """Return the preparation that a bundle holds, to be run from `folder`, or in words why it cannot be used here.

    None where it holds none.

    Raises:
        BundleError: it is not of the code that is beside it.
    """
    path = folder / PREPARATION_FILE
    if not path.is_file():
        return None
    try:
        preparation = msgspec.json.decode(path.read_bytes(), type=Preparation)
    except (OSError, msgspec.MsgspecError) as error:
        raise BundleError(f"{PREPARATION_FILE}: {error}") from None
    _check_sources(folder, preparation)
    place, _, attribute = str(folder / bundle.target).partition(":")
    target = Target.of(f"{place}:{attribute or preparation.python_name}")
    moved = msgspec.structs.replace(preparation, code=target.text)
    if (folder / SNAPSHOT_FOLDER).is_dir():
        moved = msgspec.structs.replace(moved, snapshot=str(folder / SNAPSHOT_FOLDER))
    return moved.unfit() or moved


def _check_sources(folder: Path, preparation: Preparation) -> None:
    """Compare the code with what was made ready; sources that lay elsewhere cannot be in a bundle."""
    home = Path(preparation.description.target.rpartition(":")[0]).parent
    for source, digest in preparation.origin.sources.items():
        if not Path(source).is_relative_to(home):
            raise BundleError(f"{source} was used when it was made ready, and lay outside of {home}")
        name = Path(source).relative_to(home)
        if file_digest(folder / name) != digest:
            raise BundleError(f"{name} is not there, or not as it was when it was made ready")
