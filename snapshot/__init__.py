"""Object graphs at rest: bytes <-> tensors <-> objects.

    manifest = snapshot.freeze(state, folder, meta={"function": "embed"})
    thawed = snapshot.thaw(folder, expect_digest=manifest.digest)
    thawed.state

Importing this package imports neither numpy nor torch; thawing imports what the graph itself refers to.
"""

from snapshot.errors import (
    BadHeaderError,
    BadManifestError,
    BadNameError,
    DamagedError,
    DigestMismatchError,
    HeaderTooLargeError,
    IncompatibleError,
    LibraryMismatchError,
    PythonMismatchError,
    SizeMismatchError,
    SnapshotError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    ThawError,
    Unfreezable,
    UnsupportedDtypeError,
)
from snapshot.freeze import freeze
from snapshot.manifest import Manifest, read_manifest
from snapshot.reducers import KeptFiles, reducer
from snapshot.thaw import Thawed, thaw

__all__ = [
    "BadHeaderError",
    "BadManifestError",
    "BadNameError",
    "DamagedError",
    "DigestMismatchError",
    "HeaderTooLargeError",
    "IncompatibleError",
    "KeptFiles",
    "LibraryMismatchError",
    "Manifest",
    "PythonMismatchError",
    "SizeMismatchError",
    "SnapshotError",
    "SnapshotExistsError",
    "SnapshotNotFoundError",
    "ThawError",
    "Thawed",
    "Unfreezable",
    "UnsupportedDtypeError",
    "freeze",
    "read_manifest",
    "reducer",
    "thaw",
]
