"""A bundle at an address: a folder, an archive, or either of them in S3, had as a folder here."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from faas import s3
from faas.bundle import reading
from faas.bundle.errors import BadBundle
from faas.bundle.manifest import ARCHIVE_SUFFIX, MANIFEST, MAX_MANIFEST_BYTES, decode
from snapshot.s3_address import S3Address, is_s3

if TYPE_CHECKING:
    from snapshot.s3_client import S3Client

_NAME_LENGTH: Final = 32
_STAGING: Final = ".staging-"


def fetch(address: str, root: Path) -> Path:
    """Return the folder of a bundle: where it is, or for one in S3 or in an archive, a folder below `root`.

    A folder there is named by what it holds: what was fetched once is not fetched again.

    Raises:
        BadBundle: there is none, or it is not what it says.
        SettingError: what S3 needs is not installed.
        SnapshotError: S3 does not give it.
        OSError: it cannot be written.
    """
    if not is_s3(address):
        path = Path(address).expanduser().absolute()
        return _unpacked(path, root) if path.is_file() and path.suffix == ARCHIVE_SUFFIX else path
    where = S3Address.parse(address)
    client = s3.client(where.bucket)
    if where.prefix.endswith(ARCHIVE_SUFFIX):
        return _within(root, lambda staging: _archive(client, where.prefix, staging, root))
    content = client.get(where.key(MANIFEST))
    if content is None:
        raise BadBundle(f"{address} has no {MANIFEST}; give the prefix, or the archive, of a bundle")
    return _folder(client, where, content, root)


def _unpacked(archive: Path, root: Path) -> Path:
    from faas.bundle.archive import unpack  # tarfile is nothing to a bundle that is a folder

    folder = root / reading.file_digest(archive)[:_NAME_LENGTH]
    if not folder.is_dir():
        unpack(archive, folder)
    return folder


def _archive(client: S3Client, key: str, staging: Path, root: Path) -> Path:
    archive = staging / f"bundle{ARCHIVE_SUFFIX}"
    client.download(key, archive)
    return _unpacked(archive, root)


def _folder(client: S3Client, where: S3Address, content: bytes, root: Path) -> Path:
    """Fetch the files that a `bundle.json` lists, and no others."""
    if len(content) > MAX_MANIFEST_BYTES:
        raise BadBundle(f"{MANIFEST} has {len(content)} bytes, which are too many")
    bundle = decode(content)
    folder = root / blake3(content).hexdigest()[:_NAME_LENGTH]
    if folder.is_dir():
        return folder

    def fill(staging: Path) -> Path:
        made = staging / "bundle"
        made.mkdir()
        (made / MANIFEST).write_bytes(content)
        for path in bundle.files:
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            client.download(where.key(path), made / path)
        reading.read(made, here=False)
        made.rename(folder)
        return folder

    return _within(root, fill)


def _within(root: Path, work: Callable[[Path], Path]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=root))
    try:
        return work(staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
