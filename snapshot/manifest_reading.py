"""A manifest, read and checked: whoever gets one need not doubt what it says of files, offsets and sizes."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from snapshot.digests import address_of, are_digests, num_chunks
from snapshot.errors import BadManifestError, FormatVersionError, SnapshotNotFoundError
from snapshot.format import MAX_HEAD_BYTES, MIN_HEAD_BYTES
from snapshot.manifest import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    Manifest,
    Shard,
    StoredTensor,
    View,
    is_inside,
)


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of the snapshot in `folder`.

    Raises SnapshotNotFoundError when there is none, FormatVersionError when it is of another version, and
    BadManifestError when it cannot be trusted to be whole.
    """
    path = folder / MANIFEST_FILE
    return parse_manifest(path, _read(path))


def read_format_version(folder: Path) -> int:
    """The version of the format of the snapshot in `folder`, whether this program reads it or not.

    Raises SnapshotNotFoundError and BadManifestError.
    """
    path = folder / MANIFEST_FILE
    return _parse_version(path, _read(path))


def parse_manifest(path: Path, encoded: bytes) -> Manifest:
    """Decode and check a manifest; `path` is for messages alone."""
    try:
        manifest = _decode(path, encoded, _manifests)
    except BadManifestError:
        _check_version(path, _parse_version(path, encoded))  # of another version, it may well look otherwise
        raise
    _check_version(path, manifest.format_version)
    _check(path, manifest)
    if _encode(path, manifest) != encoded:
        raise BadManifestError(path, "is not in canonical form: it was written or changed by another program")
    return manifest


def _check_version(path: Path, version: int) -> None:
    if version != FORMAT_VERSION:
        raise FormatVersionError(
            f"{path} is of format version {version}, this program reads version {FORMAT_VERSION}: make the snapshot "
            f"again, or read it with the program that made it"
        )


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadManifestError(path, "is no file of its own but a pipe or a device")
            num_bytes = status.st_size
            if num_bytes > MAX_MANIFEST_BYTES:
                raise BadManifestError(path, f"has {num_bytes} bytes, more than the limit of {MAX_MANIFEST_BYTES}")
            return file.read(MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SnapshotNotFoundError(f"{path.parent} holds no snapshot: there is no {MANIFEST_FILE} in it") from error
    except OSError as error:
        raise BadManifestError(path, f"cannot be read: {error.strerror}") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for its writer


class _Versioned(msgspec.Struct):
    format_version: int


def _parse_version(path: Path, encoded: bytes) -> int:
    return _decode(path, encoded, _versions).format_version


def _encode(path: Path, manifest: Manifest) -> bytes:
    try:
        return manifest.encode()
    except OverflowError as error:
        raise BadManifestError(path, f"holds a number that JSON programs do not agree on: {error}") from error


_S = TypeVar("_S", bound=msgspec.Struct)
_manifests = msgspec.json.Decoder(Manifest)
_versions = msgspec.json.Decoder(_Versioned)


def _decode(path: Path, encoded: bytes, decoder: msgspec.json.Decoder[_S]) -> _S:
    try:
        return decoder.decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadManifestError(path, f"is not a manifest: {error}") from error


def _check(path: Path, manifest: Manifest) -> None:
    fault = next(_faults(manifest), None)
    if fault:
        raise BadManifestError(path, fault)


def _faults(manifest: Manifest) -> Iterator[str]:
    """In what a manifest contradicts itself. What it says of sizes and counts is never used before it is compared."""
    yield from _faults_of_files(manifest)
    for shard in manifest.shards:
        yield from _faults_of_shard(shard)
    stored = [tensor for shard in manifest.shards for tensor in shard.tensors]
    if repeated := _repeated(tensor.name for tensor in stored):
        yield f"has two tensors called {repeated!r}"
    if repeated := _repeated(view.name for view in manifest.views):
        yield f"has two references called {repeated!r}"
    for index, view in enumerate(manifest.views):
        if fault := _fault_of_view(view, stored):
            yield f"reference {index} ({view.name!r}) {fault}"


def _faults_of_files(manifest: Manifest) -> Iterator[str]:
    names = [MANIFEST_FILE, *(record.file for record in manifest.all_files)]
    yield from (f"names a file outside the snapshot: {name!r}" for name in names if not is_inside(name))
    if repeated := _repeated(names):
        yield f"names one file twice: {repeated!r}"
    for record in manifest.all_files:
        expected = num_chunks(record.num_bytes)
        if len(record.chunks) != expected:
            yield f"gives {record.file} {len(record.chunks)} chunks, {record.num_bytes} bytes have {expected}"
        elif not are_digests(record.chunks):
            yield f"gives {record.file} chunks that are no BLAKE3 digests in lower-case hexadecimal digits"
        elif address_of(record.chunks) != record.digest:
            yield f"gives {record.file} a digest that is not the one of its chunks"


def _faults_of_shard(shard: Shard) -> Iterator[str]:
    if not MIN_HEAD_BYTES <= shard.head_bytes <= min(shard.num_bytes, MAX_HEAD_BYTES):
        yield f"gives {shard.file}, which has {shard.num_bytes} bytes, a head of {shard.head_bytes} bytes"
    position = shard.head_bytes
    for tensor in shard.tensors:
        end = tensor.offset + tensor.num_bytes
        if not position <= tensor.offset <= end <= shard.num_bytes:
            yield (
                f"places tensor {tensor.name!r} at bytes {tensor.offset} to {end} of {shard.file}, which is outside "
                f"{position} to {shard.num_bytes}: before the end of what lies in front of it, or past the end"
            )
        position = end


def _fault_of_view(view: View, stored: Sequence[StoredTensor]) -> str | None:
    if view.tensor >= len(stored):
        return "points past the last stored tensor"
    num_bytes = stored[view.tensor].num_bytes
    if view.start > num_bytes:
        return "begins outside its stored tensor"
    if view.strides is not None and len(view.strides) != len(view.shape):
        return f"has {len(view.strides)} strides for {len(view.shape)} dimensions"
    if view.form in ("storage", "buffer") and (len(view.shape) != 1 or view.start + view.shape[0] > num_bytes):
        return "is no run of bytes of its stored tensor"
    return None


def _repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before."""
    names = list(names)
    if len(set(names)) == len(names):
        return None
    met: set[str] = set()
    for name in names:
        if name in met:
            return name
        met.add(name)
    return None
