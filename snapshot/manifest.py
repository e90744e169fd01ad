"""What a snapshot says of itself: `manifest.json`.

The manifest is JSON in one canonical encoding; the BLAKE3 digest of those bytes is the snapshot's identity, and since
the manifest holds the digest of every other file, it vouches for all of them.
"""

from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec
from blake3 import blake3

from snapshot.digests import ChunkDigest, Digest
from snapshot.format import Natural, Shape

FORMAT_VERSION = 2
MANIFEST_FILE = "manifest.json"
SKELETON_FILE = "skeleton"
MAX_MANIFEST_BYTES = 1 << 28
SHORT_DIGEST_LENGTH = 16

_Distance = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Form = Literal["numpy", "torch", "parameter", "storage", "buffer"]


class StoredTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor of a shard. `dtype` is safetensors' name for it, `offset` its first byte in the file."""

    name: str
    dtype: str
    shape: Shape
    offset: Natural
    num_bytes: Natural


class FileRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the snapshot, by its path inside the folder, with its size and content address.

    chunks: the digests that `digest` is made from (`snapshot.digests`)
    """

    file: str
    num_bytes: Natural
    digest: Digest
    chunks: tuple[ChunkDigest, ...]


class Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor file and its tensors in load order (fillers left out).

    head_bytes, head_digest: of all that lies before the data, so that a thaw can trust the header without parsing it
    """

    file: str
    num_bytes: Natural
    digest: Digest
    chunks: tuple[ChunkDigest, ...]
    head_bytes: Natural
    head_digest: Digest
    tensors: tuple[StoredTensor, ...]


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What reference number i of the skeleton stands for: a tensor or array that lies in a stored tensor.

    What is left out is as the stored tensor has it.

    tensor: index into the stored tensors, counted through all shards
    form: the object to make: an array, a tensor, a parameter, the storage of a tensor that is more than strided
        memory, or a buffer, which is bare memory that an object pickles out of band
    dtype: numpy's type string or torch's name of the type
    shape: elements in each dimension; strides: bytes from one element to the next in each dimension
    start: bytes from the stored tensor's first byte to the view's first element
    read_only: of an array, that it refuses to be written to
    requires_grad, device: as torch has them; no device is the CPU
    """

    tensor: Natural
    form: Form
    name: str
    dtype: str
    shape: Shape
    strides: Annotated[tuple[_Distance, ...], msgspec.Meta(max_length=64)] | None = None
    start: Natural = 0
    read_only: bool = False
    requires_grad: bool = False
    device: str | None = None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A snapshot's table of contents.

    python: the version of Python that wrote the skeleton, as major.minor.micro
    libraries: distribution name -> version, of what the skeleton refers to
    created_at: UTC, ISO 8601
    files: kept as they were, by reducers (a model that a runtime opens by path)
    meta: the caller's own
    """

    format_version: int
    python: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+$")]
    libraries: dict[Annotated[str, msgspec.Meta(min_length=1)], str]
    created_at: str
    skeleton: FileRecord
    shards: tuple[Shard, ...]
    views: tuple[View, ...]
    files: tuple[FileRecord, ...]
    meta: dict[str, object]

    def encode(self) -> bytes:
        """The canonical bytes."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def digest(self) -> str:
        """The snapshot's identity: BLAKE3 of the canonical bytes, 64 hexadecimal digits."""
        return blake3(self.encode()).hexdigest()

    @property
    def short_digest(self) -> str:
        """The first digits of the identity, enough to name a folder."""
        return self.digest[:SHORT_DIGEST_LENGTH]

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all stored tensors."""
        return sum(tensor.num_bytes for shard in self.shards for tensor in shard.tensors)

    @property
    def all_files(self) -> tuple[FileRecord | Shard, ...]:
        """Every file of the snapshot but the manifest."""
        return (self.skeleton, *self.shards, *self.files)


def is_inside(name: str) -> bool:
    """Whether `name` is the one spelling of a path to a file inside a folder."""
    path = PurePosixPath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and str(path) == name
        and "\0" not in name
    )
