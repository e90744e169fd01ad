"""A function's snapshot that lies in S3: into the node's store, and from there, while it comes, into an instance."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import snapshot
from faas import settings
from faas.spec import LoadMode
from snapshot.s3_address import S3Address, is_s3

if TYPE_CHECKING:
    from faas.instance_messages import Revision
    from snapshot.s3_store import S3Store


def place(made_ready: str | None, of_function: str | None) -> str | None:
    """Return where a function's snapshot is, a folder or an address in S3; None where there is none.

    What was made ready here goes before what the environment says (FAAS_SNAPSHOT_URI), and that before the function's
    own `Snapshot(uri=...)`.
    """
    return made_ready or settings.read().snapshot_uri or of_function


def is_remote(place: str) -> bool:
    """Whether a place is in S3."""
    return is_s3(place)


def thaw(address: str, revision: Revision, load: LoadMode, *, background: bool) -> snapshot.Thawed:
    """Return what `s3://bucket/prefix/NAME` or `.../NAME@DIGEST` holds, rebuilt while it came; all of it is here then.

    A snapshot whose whole digest is given is not asked for in S3 when the node has it. background: whether threads may
    still be making it durable in the node's store when this returns.

    Raises:
        SnapshotError: it cannot be had, does not thaw, or is not what it should be.
    """
    found = settings.read()
    into = snapshot.LocalStore(found.snapshots)
    where, name, at = S3Address.of_snapshot(address)
    wanted = revision.digest or at
    if wanted is not None:
        with contextlib.suppress(snapshot.SnapshotNotFoundError):
            here = into.folder(into.find(name, wanted))
            _check_function(address, revision.function, snapshot.read_manifest(here))
            return _thaw(here, load, found, background=background, digest=revision.digest)
    with _store(where, address).pull(name, wanted, into=into) as pulling:
        _check_function(address, revision.function, pulling.manifest)
        if not background:
            return _thaw(into.folder(pulling.finish()), load, found, background=False, digest=pulling.manifest.digest)
        thawed = pulling.thaw(num_threads=found.num_threads)
        pulling.wait()  # an instance serves once all of it is here
        return thawed


def fetch(address: str, digest: str | None) -> None:
    """Have a snapshot at `s3://bucket/prefix/NAME` or `.../NAME@DIGEST` in the node's store before anybody thaws it.

    Raises:
        SnapshotError: it cannot be had.
    """
    into = snapshot.LocalStore(settings.read().snapshots)
    where, name, at = S3Address.of_snapshot(address)
    wanted = digest or at
    if wanted is not None:
        with contextlib.suppress(snapshot.SnapshotNotFoundError):
            into.find(name, wanted)
            return
    with _store(where, address).pull(name, wanted, into=into) as pulling:
        pulling.finish()


def manifest_at(place: str) -> snapshot.Manifest:
    """Return the manifest of a snapshot in a folder or in S3. Raises SnapshotError."""
    if not is_remote(place):
        return snapshot.read_manifest(Path(place))
    where, name, digest = S3Address.of_snapshot(place)
    return _store(where, place).locate(name, digest)[1]


def _check_function(address: str, function: str, manifest: snapshot.Manifest) -> None:
    """Refuse another function's state: the environment says one address to all functions of a process."""
    frozen = manifest.meta.get("function", function)
    if frozen != function:
        raise snapshot.SnapshotNotFoundError(f"{address} is a snapshot of the function {frozen!r}, not of {function!r}")


def _thaw(
    folder: Path, load: LoadMode, found: settings.Settings, *, background: bool, digest: str | None
) -> snapshot.Thawed:
    return snapshot.thaw(
        folder,
        expect_digest=digest,
        load=found.snapshot_load or load,
        background=background,
        num_threads=found.num_threads,
    )


def _store(where: S3Address, address: str) -> S3Store:
    try:
        from snapshot.s3_store import S3Store  # boto3 is nothing to an instance whose snapshot is here
    except ModuleNotFoundError as error:
        raise snapshot.RemoteError(address, f"{error.name} is not installed: pip install 'faas[s3]'") from None
    return S3Store(where)
