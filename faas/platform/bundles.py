"""The bundles that a platform follows: those of `faas bundle`, and plain ones, written by hand.

    NAME/bundle.json          {"format": 1, "target": "app.py:Embed"}; put there last, it says that the rest is there
    NAME/app.py ...           the code, and what it reads beside it
    NAME/preparation.json     where it was made ready elsewhere: its preparation, as a store holds it
    NAME/snapshot/            the frozen state that the preparation names, unless that is in S3

so a plain one, which may hold the functions of a whole file. Without a preparation, or with one that does not fit this
machine's Python and packages, either is made ready here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from faas import bundle as made
from faas.bundle.errors import BadBundle, BundleError
from faas.bundle.manifest import FORMAT, MANIFEST, PREPARATION, SNAPSHOT
from faas.bundle.prepared import prepared as made_prepared
from faas.preparation import Preparation, file_digest
from faas.targets import Target

PLAIN_FORMAT: Final = 1

__all__ = ["BundleError", "content_digest", "prepared", "read"]


class Plain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plain bundle: the target, relative to the folder, and of files that must be there the BLAKE3 digests.

    Only with digests can a bundle that is replaced file by file be told from one that is half replaced.
    """

    format: int
    target: str
    files: dict[str, str] = {}


class _Format(msgspec.Struct):
    format: int


def read(folder: Path) -> str:
    """Return the target that a bundle is, once it is whole.

    Raises:
        BundleError: it has no `bundle.json`, that says nothing this version understands, or a file is not there yet.
    """
    try:
        content = (folder / MANIFEST).read_bytes()
        format_ = msgspec.json.decode(content, type=_Format).format
    except OSError:
        raise BadBundle(f"it has no {MANIFEST}") from None
    except msgspec.MsgspecError as error:
        raise BadBundle(f"{MANIFEST}: {error}") from None
    if format_ == FORMAT:
        made.read(folder, here=False)  # what it is made for may be an environment of its own
        return str(folder / MANIFEST)
    if format_ != PLAIN_FORMAT:
        raise BadBundle(f"{MANIFEST} is of format {format_}; this version reads {PLAIN_FORMAT} and {FORMAT}")
    return str(folder / _plain(folder, content).target)


def _plain(folder: Path, content: bytes) -> Plain:
    try:
        plain = msgspec.json.decode(content, type=Plain)
    except msgspec.MsgspecError as error:
        raise BadBundle(f"{MANIFEST}: {error}") from None
    for name, digest in plain.files.items():
        if file_digest(folder / name) != digest:
            raise BadBundle(f"{name} is not there, or not as {MANIFEST} says")
    if Path(plain.target).is_absolute() or ".." in Path(plain.target).parts:
        raise BadBundle(f"{MANIFEST}: the target {plain.target!r} must lie in the bundle")
    return plain


def content_digest(folder: Path) -> str:
    """Return the digest of all files of a folder and their names."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = [(str(path.relative_to(folder)), file_digest(path)) for path in paths]
    return blake3(msgspec.json.encode(listed)).hexdigest()


def prepared(folder: Path, target: str) -> Preparation | str | None:
    """Return the preparation that a bundle holds, to be run from `folder`, or in words why it cannot be used here.

    None where it holds none. `target` is the bundle's, as `read` returns it.

    Raises:
        BundleError: it is not of the code that is beside it.
    """
    if target == str(folder / MANIFEST):
        return made_prepared(folder, made.read(folder, here=False))
    path = folder / PREPARATION
    if not path.is_file():
        return None
    try:
        preparation = msgspec.json.decode(path.read_bytes(), type=Preparation)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadBundle(f"{PREPARATION}: {error}") from None
    _check_sources(folder, preparation)
    place, _, attribute = target.partition(":")
    code = Target.of(f"{place}:{attribute or preparation.python_name}")
    moved = msgspec.structs.replace(preparation, code=code.text)
    if (folder / SNAPSHOT).is_dir():
        moved = msgspec.structs.replace(moved, snapshot=str(folder / SNAPSHOT))
    return moved.unfit() or moved


def _check_sources(folder: Path, preparation: Preparation) -> None:
    """Compare the code with what was made ready; sources that lay elsewhere cannot be in a bundle."""
    home = Path(preparation.description.target.rpartition(":")[0]).parent
    for source, digest in preparation.origin.sources.items():
        if not Path(source).is_relative_to(home):
            raise BadBundle(f"{source} was used when it was made ready, and lay outside of {home}")
        name = Path(source).relative_to(home)
        if file_digest(folder / name) != digest:
            raise BadBundle(f"{name} is not there, or not as it was when it was made ready")
