"""What `bundle.json` says, and the names of what lies beside it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from blake3 import blake3

from faas.bundle.errors import BadBundle

FORMAT: Final = 2
MANIFEST: Final = "bundle.json"
CODE: Final = "code"
PAYLOAD: Final = "payload.pickle"
PREPARATION: Final = "preparation.json"
SNAPSHOT: Final = "snapshot"
ARCHIVE_SUFFIX: Final = ".tar"

MAX_MANIFEST_BYTES: Final = 16 << 20
MAX_FILES: Final = 100_000
MAX_BYTES: Final = 1 << 40
"""What all files of a bundle may come to: more than any model, and less than what overflows anything."""


class File(msgspec.Struct, frozen=True):
    """One file of a bundle: the BLAKE3 digest of its content in hexadecimal digits, and its size."""

    digest: str
    num_bytes: int


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle, as `bundle.json` says it.

    `target` is MODULE:NAME as the bundle imports it; a MODULE of `__main__` is the code that travels by value.
    `python` is the version that made it, and `libraries` the installed distributions that the code uses, with their
    versions; the payload refers to those in `referred`, and has code of modules that are `made` for it, having no file.
    `requirements` are the function's own, as written.
    `spec` is the function's specification and `limits` the concurrency that follows from it, both as plain values.
    `files` has every file but `bundle.json` by its path in the bundle. `notes` say, to people, what does not travel.
    """

    format: int = FORMAT
    name: str
    target: str
    python: str
    faas: str
    requirements: tuple[str, ...] = ()
    libraries: dict[str, str] = {}
    referred: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    spec: dict[str, Any] = {}
    limits: dict[str, int] = {}
    files: dict[str, File] = {}
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The bundle's address: the digest of what `bundle.json` says, which holds the digests of all else."""
        return blake3(msgspec.json.encode(self, order="deterministic")).hexdigest()

    @property
    def num_bytes(self) -> int:
        """The size of all its files."""
        return sum(file.num_bytes for file in self.files.values())

    @property
    def module(self) -> str:
        """The module that defines the function."""
        return self.target.partition(":")[0]

    def encode(self) -> bytes:
        """Return the content of `bundle.json`: the same bytes for the same bundle."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic")) + b"\n"


def decode(content: bytes) -> Bundle:
    """Return what the content of a `bundle.json` says.

    Raises:
        BadBundle: it says nothing that this version understands, or names a file that would not lie in the bundle.
    """
    if len(content) > MAX_MANIFEST_BYTES:
        raise BadBundle(f"{MANIFEST} has {len(content)} bytes; one of more than {MAX_MANIFEST_BYTES} is not read")
    try:
        made = msgspec.json.decode(content, type=_Format).format
    except msgspec.MsgspecError as error:
        raise BadBundle(f"{MANIFEST}: {error}") from None
    if made != FORMAT:
        raise BadBundle(f"{MANIFEST} is of format {made}; this version reads {FORMAT}: make the bundle again")
    try:
        bundle = msgspec.json.decode(content, type=Bundle)
    except msgspec.MsgspecError as error:
        raise BadBundle(f"{MANIFEST}: {error}") from None
    _check(bundle)
    return bundle


class _Format(msgspec.Struct):
    format: int


def _check(bundle: Bundle) -> None:
    if len(bundle.files) > MAX_FILES or bundle.num_bytes > MAX_BYTES:
        raise BadBundle(
            f"{MANIFEST} lists {len(bundle.files)} files of {bundle.num_bytes} bytes; "
            f"more than {MAX_FILES} or {MAX_BYTES} bytes are not read"
        )
    for path, file in bundle.files.items():
        if not is_inside(path) or path == MANIFEST or file.num_bytes < 0:
            raise BadBundle(f"{MANIFEST} lists {path!r}, which is no plain path inside the bundle")
    module, colon, attribute = bundle.target.partition(":")
    if not colon or not attribute or not all(_is_modules(part) for part in module.split(".")):
        raise BadBundle(f"{MANIFEST}: the target {bundle.target!r} is none; it must be MODULE:NAME")


def _is_modules(name: str) -> bool:
    """Tell whether a name may be a module's: that of a file, which has not to be one that code can write (`my-app`)."""
    return name.strip() != "" and name.isprintable() and not set("/\\:") & set(name)


def is_inside(path: str) -> bool:
    """Tell whether a path is a plain one below a folder, spelled in the one way that there is."""
    return "\0" not in path and "\\" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
