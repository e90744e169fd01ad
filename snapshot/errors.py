"""What can go wrong with a snapshot.

SnapshotError
├── Unfreezable                 something in the object graph cannot be written; .path and .reason say what and why
├── SnapshotExistsError         freeze or publish would write over something
├── SnapshotNotFoundError       no snapshot there, or none of that name or digest in the store
├── BadNameError                a snapshot's name that a store refuses
├── BadDateError                a date that a snapshot is to have, and none is
├── DamagedError                the bytes at rest are not what the format or the manifest says
│   ├── BadHeaderError          a tensor file's header
│   ├── BadManifestError        the manifest
│   ├── SizeMismatchError       a file is missing, cut short or too long
│   └── DigestMismatchError     bytes were changed, or another snapshot was asked for
├── IncompatibleError           intact, but made elsewhere
│   ├── FormatVersionError      another version of the format
│   ├── PythonMismatchError     another Python
│   └── LibraryMismatchError    other library versions; .mismatches lists them
├── HeaderTooLargeError         too many tensors, or too long names, for one file that readers would open
├── UnsupportedDtypeError       a tensor whose type the reader at hand cannot express
├── BadAddressError             an address or an endpoint of a remote store that cannot be meant
├── RemoteError                 a remote store did not do what it was asked to; .address says of what
│   ├── CredentialsError        there are none, or they are wrong or expired
│   ├── AccessDeniedError       they are good, and not for this
│   ├── BucketNotFoundError     there is no such bucket
│   └── UnreachableError        no answer, or failures of the server, for as long as was tried
├── NoSpaceError                a disk has no room for what is to be written
├── NotWritableError            a folder that is to be written to, and cannot be
├── DeviceError                 a device that tensors are to be loaded to has failed
│   ├── DeviceMissingError      this process does not see it
│   └── DeviceMemoryError       it, or pinned memory of the host, does not suffice; .num_bytes and .free_bytes
├── NotEnoughMemoryError        there is less memory than a load mode takes; .needed_bytes and .available_bytes
├── ImportRefused               a model of another format that is not imported as it is; .problem and .remedy
│   ├── MissingShardsError      files that it names are not there; .missing lists them
│   └── IndexMismatchError      its index and its files disagree; .tensors lists on what
├── NotExportable               a module that cannot be had in another form; .path and .reason say what and why
├── InputMismatch               an exported model was given what it does not take (also a ValueError); .name says which
└── ThawError                   the object graph itself refused to be rebuilt
    └── BadViewError            a tensor or array that does not fit the memory it is said to lie in
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapshot.paths import Trail


class SnapshotError(Exception):
    """Base of all errors of this package."""


class Unfreezable(SnapshotError):
    """An object cannot be frozen. `path` leads to it from the root, which is called `state`; `trail` is its steps."""

    def __init__(self, path: str, reason: str, trail: "Trail" = ()) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.trail = trail

    def __reduce__(self) -> tuple[type["Unfreezable"], tuple[str, str]]:
        return Unfreezable, (self.path, self.reason)


class NotEnoughMemoryError(SnapshotError):
    """Tensors were to be read into memory of the process's own, and there is less than that."""

    def __init__(self, needed_bytes: int, available_bytes: int, mode: str) -> None:
        super().__init__(
            f'load="{mode}" takes {needed_bytes} bytes of memory and {available_bytes} are available; '
            f'give it more, or take load="map", which needs no memory of its own'
        )
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.mode = mode

    def __reduce__(self) -> tuple[type["NotEnoughMemoryError"], tuple[int, int, str]]:
        return NotEnoughMemoryError, (self.needed_bytes, self.available_bytes, self.mode)


class SnapshotExistsError(SnapshotError):
    """The target is already there; a snapshot is never written over."""


class SnapshotNotFoundError(SnapshotError):
    """There is no snapshot at that place."""


class BadNameError(SnapshotError):
    """A name that would not be a safe folder name."""


class BadDateError(SnapshotError):
    """SOURCE_DATE_EPOCH says no time."""


class DamagedError(SnapshotError):
    """Bytes at rest contradict the format or the manifest. `path` is the file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type["DamagedError"], tuple[Path, str]]:
        return type(self), (self.path, self.problem)


class BadHeaderError(DamagedError):
    """The header of a tensor file is malformed, contradicts itself, or contradicts the manifest."""


class BadManifestError(DamagedError):
    """The manifest is malformed or contradicts itself."""


class SizeMismatchError(DamagedError):
    """A file is missing or has not the size that the manifest or its own header gives."""


class DigestMismatchError(DamagedError):
    """A digest is not the expected one."""


class IncompatibleError(SnapshotError):
    """The snapshot was made in another environment; make it again in this one."""


class FormatVersionError(IncompatibleError):
    """The snapshot is of a version of the format that this program does not read."""


class PythonMismatchError(IncompatibleError):
    """The snapshot was made by another minor version of Python."""


class LibraryMismatchError(IncompatibleError):
    """Libraries are installed in other versions. `mismatches`: name -> (version frozen with, version here or None)."""

    def __init__(self, mismatches: Mapping[str, tuple[str, str | None]]) -> None:
        listed = "; ".join(
            f"{name} {frozen} in the snapshot, {here or 'none'} installed"
            for name, (frozen, here) in sorted(mismatches.items())
        )
        super().__init__(f"the snapshot was made with other library versions ({listed}); make it again here")
        self.mismatches = dict(mismatches)

    def __reduce__(self) -> tuple[type["LibraryMismatchError"], tuple[dict[str, tuple[str, str | None]]]]:
        return LibraryMismatchError, (self.mismatches,)


class HeaderTooLargeError(SnapshotError):
    """The header of a tensor file would pass the size that readers accept."""


class UnsupportedDtypeError(SnapshotError):
    """A tensor's type has no counterpart in the library it was asked for."""


class BadAddressError(SnapshotError):
    """An address or an endpoint of a remote store that cannot be meant."""


class RemoteError(SnapshotError):
    """A remote store did not do what it was asked to. `address` is what it was asked for."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"{address}: {problem}")
        self.address = address
        self.problem = problem

    def __reduce__(self) -> tuple[type["RemoteError"], tuple[str, str]]:
        return type(self), (self.address, self.problem)


class CredentialsError(RemoteError):
    """There are no credentials, or the store takes those there are not, or no longer."""


class AccessDeniedError(RemoteError):
    """The credentials are good, and do not allow this."""


class BucketNotFoundError(RemoteError):
    """There is no such bucket."""


class UnreachableError(RemoteError):
    """The store did not answer, or failed, each time it was tried."""


class NoSpaceError(SnapshotError):
    """A disk has no room for what is to be written to it."""


class NotWritableError(SnapshotError):
    """What is to be written cannot be: the folder, or its file system, is for reading alone, or no folder at all."""


class DeviceError(SnapshotError):
    """A device that tensors are to be loaded to has failed."""


class DeviceMissingError(DeviceError):
    """Tensors are to be loaded to a device that this process does not see."""


class DeviceMemoryError(DeviceError):
    """Memory of a device, or pinned memory of the host, does not suffice.

    `num_bytes` were asked for; `free_bytes` are free, None where nobody can say.
    """

    def __init__(self, problem: str, num_bytes: int, free_bytes: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.num_bytes = num_bytes
        self.free_bytes = free_bytes

    def __reduce__(self) -> tuple[type["DeviceMemoryError"], tuple[str, int, int | None]]:
        return DeviceMemoryError, (self.problem, self.num_bytes, self.free_bytes)


class ThawError(SnapshotError):
    """Unpickling the skeleton failed: a module is gone, a class has changed, a reducer's rebuild raised."""


class BadViewError(ThawError):
    """A tensor or array is not in the memory that it is said to lie in, or not of a type that can lie there."""


class ImportRefused(SnapshotError):
    """A model of another format cannot be imported as it is. `remedy` says what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[Callable[..., "ImportRefused"], tuple[object, ...]]:
        return type(self), (self.problem, self.remedy)


class MissingShardsError(ImportRefused):
    """Files with weights are not there. `missing`: their names, beside the file that names them."""

    def __init__(self, problem: str, remedy: str, missing: Sequence[str]) -> None:
        super().__init__(problem, remedy)
        self.missing = tuple(missing)

    def __reduce__(self) -> tuple[Callable[..., ImportRefused], tuple[object, ...]]:
        return MissingShardsError, (self.problem, self.remedy, self.missing)


class IndexMismatchError(ImportRefused):
    """An index lists tensors that are not where it says, or does not list all. `tensors`: their names."""

    def __init__(self, problem: str, remedy: str, tensors: Sequence[str]) -> None:
        super().__init__(problem, remedy)
        self.tensors = tuple(tensors)

    def __reduce__(self) -> tuple[Callable[..., ImportRefused], tuple[object, ...]]:
        return IndexMismatchError, (self.problem, self.remedy, self.tensors)


class NotExportable(SnapshotError):
    """A module, or a handler, cannot be had in the form that was asked for. `path` is where it is in the state."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type["NotExportable"], tuple[str, str]]:
        return NotExportable, (self.path, self.reason)


class InputMismatch(SnapshotError, ValueError):
    """An exported model was given what it does not take. `name` is the input; `given` and `wanted` say in words."""

    def __init__(self, name: str, given: str, wanted: str) -> None:
        super().__init__(f"input {name!r}: got {given}, wanted {wanted}")
        self.name = name
        self.given = given
        self.wanted = wanted

    def __reduce__(self) -> tuple[type["InputMismatch"], tuple[str, str, str]]:
        return InputMismatch, (self.name, self.given, self.wanted)
