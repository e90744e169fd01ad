"""The index of a sharded model: which file holds which tensor, and whether the files agree.

All of it is decided from the index and the files' headers, before any weights are read.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from snapshot.errors import BadHeaderError, DamagedError, IndexMismatchError, MissingShardsError
from snapshot.format import FILLER_PREFIX, Header, read_header
from snapshot.imports.incoming import first_bytes, listed
from snapshot.mapping import opened

INDEX_SUFFIX = ".safetensors.index.json"
# Of a variant, as transformers and diffusers call it (model.safetensors.index.fp16.json), the latter in two ways.
_INDEX_OF_VARIANT = re.compile(r".+\.safetensors\.(index\.[\w-]+|[\w-]+\.index)\.json")
_AGAIN = "download or copy the whole model again"


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """weight_map: tensor -> file beside the index; total_bytes: of all tensors, where the index says so."""

    path: Path
    weight_map: Mapping[str, str]
    total_bytes: int | None

    @property
    def files(self) -> list[str]:
        """The files that it names, each once."""
        return sorted(set(self.weight_map.values()))


def is_index(name: str) -> bool:
    """Whether a file of this name is an index of shards, of a model or of a variant of one."""
    return name.endswith(INDEX_SUFFIX) or _INDEX_OF_VARIANT.fullmatch(name) is not None


def read_index(path: Path) -> ShardIndex:
    """Raises DamagedError when it is no index, names a tensor twice or a file that does not lie beside it."""
    document = read_json_object(path)
    weight_map = document.get("weight_map")
    metadata = document.get("metadata") or {}
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise DamagedError(path, "is no index of shards: it has no weight_map from tensors to files")
    if not weight_map:
        raise DamagedError(path, "is an index of no tensors at all")
    if outside := {file for file in weight_map.values() if PurePosixPath(file).name != file or file in ("", "..")}:
        raise DamagedError(path, f"names files that do not lie beside it: {listed(map(repr, outside))}")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return ShardIndex(path, weight_map, total if isinstance(total, int) else None)


def read_json_object(path: Path) -> dict[str, object]:
    """Raises DamagedError when the file holds no JSON object, or one that gives a key twice."""
    first_bytes(path)
    try:
        document = json.loads(path.read_bytes(), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"is not JSON as it should be: {error}") from error
    except OSError as error:
        raise DamagedError(path, f"cannot be read: {error.strerror}") from error
    if not isinstance(document, dict):
        raise DamagedError(path, f"holds a JSON {type(document).__name__}, expected an object")
    return document


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if twice := [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]:
        raise ValueError(f"it gives {listed(map(repr, twice))} twice")
    return dict(pairs)


def check_present(index: ShardIndex) -> None:
    """Raises MissingShardsError, with the names of all files that the index names and the folder has not."""
    folder = index.path.parent
    missing = [file for file in index.files if not (folder / file).is_file()]
    if missing:
        shown = listed(f"{file} (a link to nowhere)" if (folder / file).is_symlink() else file for file in missing)
        raise MissingShardsError(
            f"{index.path} names {len(index.files)} files, and {len(missing)} of them are missing: {shown}",
            _AGAIN,
            missing=missing,
        )


def read_headers(index: ShardIndex) -> dict[str, Header]:
    """The headers of all shards, by file, once they agree with the index in both directions.

    Raises IndexMismatchError naming the tensors, BadHeaderError and SizeMismatchError.
    """
    headers = {file: header_of(index.path.parent / file) for file in index.files}
    absent = {name: file for name, file in index.weight_map.items() if name not in headers[file].entries}
    unlisted = {
        name: file
        for file, header in headers.items()
        for name in header.entries
        if index.weight_map.get(name) != file and not name.startswith(FILLER_PREFIX)
    }
    faults = []
    if absent:
        where = listed(f"{name!r} in {file}" for name, file in absent.items())
        faults.append(f"lists tensors that are not where it says: {where}")
    if unlisted:
        where = listed(f"{name!r} in {file}" for name, file in unlisted.items())
        faults.append(f"does not list tensors that are in its files: {where}")
    if faults:
        raise IndexMismatchError(f"{index.path} {' and '.join(faults)}", _AGAIN, tensors=[*absent, *unlisted])
    return headers


def header_of(path: Path) -> Header:
    """The header of a safetensors file. Raises BadHeaderError, SizeMismatchError."""
    with opened(path) as descriptor:
        header = read_header(path, descriptor)
    if not header.entries:
        raise BadHeaderError(path, "holds no tensors")
    return header
