"""Stores in S3, as a command names them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from faas.cli import progress
from faas.cli.failure import CALL_WAS_WRONG, Failure
from snapshot.s3_address import S3Address, is_s3

if TYPE_CHECKING:
    from snapshot import Manifest, StoredSnapshot
    from snapshot.s3_store import S3Store

_NO_BOTO: Final = "boto3 is not installed, which stores in S3 need"


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Say of what goes wrong with a store in S3 what is to be done there."""
    from snapshot import errors

    try:
        yield
    except errors.SnapshotNotFoundError as error:
        raise Failure(str(error), "faas snapshot push NAME ADDRESS puts it there", CALL_WAS_WRONG) from error
    except errors.BadAddressError as error:
        raise Failure(str(error), "correct the address, then give the same command again", CALL_WAS_WRONG) from error
    except (errors.RemoteError, errors.NoSpaceError, errors.NotWritableError) as error:
        raise Failure(str(error), "then give the same command again: it goes on where it was") from error
    except errors.DamagedError as error:
        raise Failure(str(error), "faas snapshot push NAME ADDRESS, from where it is whole, sends it again") from error


def endpoint_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--endpoint`."""
    return click.option(
        "--endpoint",
        metavar="URL",
        help="The S3 server; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or Amazon's.",
    )(command)


def open_store(address: str | S3Address, endpoint: str | None = None) -> S3Store:
    """Return the store at an address.

    Raises:
        Failure: boto3 is not there.
        BadAddressError: the address is none.
    """
    place = S3Address.parse(address) if isinstance(address, str) else address
    try:
        from snapshot.s3_client import S3Options  # boto3 takes longer to import than most commands take
        from snapshot.s3_store import S3Store
    except ModuleNotFoundError as error:
        if error.name not in ("boto3", "botocore"):
            raise
        raise Failure(_NO_BOTO, "pip install 'faas[s3]'") from None
    return S3Store(place, S3Options(endpoint_url=endpoint))


def open_if_s3(store: str | None) -> S3Store | None:
    """Return the store of an option `--store`, None where that is a folder or was not given. Raises as `open_store`."""
    return open_store(store) if store is not None and is_s3(store) else None


def push(store: S3Store, name: str, folder: Path) -> StoredSnapshot:
    """Publish a snapshot under a bar."""
    with progress.of_bytes(f"pushing {name}") as show:
        return store.publish(name, folder, progress=show)


def pin(store: S3Store, stored: StoredSnapshot, endpoint: str | None, *, keep: bool) -> None:
    """Have nodes with a cache keep a snapshot, or none of its name any more."""
    from snapshot import SnapshotNotFoundError
    from snapshot.pins import Pins
    from snapshot.s3_client import S3Options

    pins = Pins(store.address, S3Options(endpoint_url=endpoint))
    if keep:
        pins.pin(stored.name, stored.digest)
        return
    with contextlib.suppress(SnapshotNotFoundError):  # none was
        pins.unpin(stored.name)


def verify(store: S3Store, meant: str, scratch: Path) -> tuple[str, Manifest]:
    """Read all of what `NAME` or `NAME@DIGEST` is in a store, and compare it with its digests, headers too.

    Nothing of it stays in `scratch`, a folder with room for it.
    """
    from snapshot import LocalStore, verify
    from snapshot.staging import scratch_folder

    name, _, digest = meant.partition("@")
    scratch.mkdir(parents=True, exist_ok=True)
    with scratch_folder(scratch) as folder, progress.of_bytes(f"reading {name}") as show:
        into = LocalStore(folder)
        with store.pull(name, digest or None, into=into, progress=show) as pulling:
            return f"{store.address}/{name}", verify(into.folder(pulling.finish()))


def manifest_of(store: S3Store, meant: str) -> tuple[StoredSnapshot, Manifest]:
    """Return what `NAME` or `NAME@DIGEST` is in a store, with its manifest."""
    name, _, digest = meant.partition("@")
    return store.locate(name, digest or None)
