"""Object graphs at rest: bytes <-> tensors <-> objects.

    manifest = snapshot.freeze(state, folder, meta={"function": "embed"})
    thawed = snapshot.thaw(folder, expect_digest=manifest.digest)
    thawed.state

Importing this package imports neither numpy nor torch; thawing imports what the graph itself refers to.
"""

from snapshot.errors import (
    AccessDeniedError,
    BadAddressError,
    BadDateError,
    BadHeaderError,
    BadManifestError,
    BadNameError,
    BadViewError,
    BucketNotFoundError,
    CredentialsError,
    DamagedError,
    DigestMismatchError,
    FormatVersionError,
    HeaderTooLargeError,
    ImportRefused,
    IncompatibleError,
    IndexMismatchError,
    LibraryMismatchError,
    MissingShardsError,
    NoSpaceError,
    NotEnoughMemoryError,
    NotWritableError,
    PythonMismatchError,
    RemoteError,
    SizeMismatchError,
    SnapshotError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    ThawError,
    Unfreezable,
    UnreachableError,
    UnsupportedDtypeError,
)
from snapshot.freeze import freeze
from snapshot.loader import LoadMode
from snapshot.local_store import LocalStore
from snapshot.manifest import FORMAT_VERSION, Manifest
from snapshot.manifest_reading import read_format_version, read_manifest
from snapshot.reducers import KeptFiles, reducer
from snapshot.store import Store, StoredSnapshot
from snapshot.tensor_file import TensorFile
from snapshot.thaw import Thawed, thaw
from snapshot.verify import verify
from snapshot.weights import Weights, open_weights

__all__ = [
    "FORMAT_VERSION",
    "AccessDeniedError",
    "BadAddressError",
    "BadHeaderError",
    "BadManifestError",
    "BadDateError",
    "BadNameError",
    "BadViewError",
    "BucketNotFoundError",
    "CredentialsError",
    "DamagedError",
    "DigestMismatchError",
    "FormatVersionError",
    "HeaderTooLargeError",
    "ImportRefused",
    "IncompatibleError",
    "IndexMismatchError",
    "KeptFiles",
    "LibraryMismatchError",
    "MissingShardsError",
    "LoadMode",
    "LocalStore",
    "Manifest",
    "NoSpaceError",
    "NotWritableError",
    "NotEnoughMemoryError",
    "PythonMismatchError",
    "RemoteError",
    "SizeMismatchError",
    "SnapshotError",
    "SnapshotExistsError",
    "SnapshotNotFoundError",
    "Store",
    "StoredSnapshot",
    "TensorFile",
    "ThawError",
    "Thawed",
    "Unfreezable",
    "UnreachableError",
    "UnsupportedDtypeError",
    "Weights",
    "freeze",
    "open_weights",
    "read_format_version",
    "read_manifest",
    "reducer",
    "thaw",
    "verify",
]
