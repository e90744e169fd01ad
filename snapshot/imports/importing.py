"""From a model of another format to a snapshot that thaws as `Weights`.

Tensors are read, converted and written a piece at a time: an import never holds a model in memory.
"""

import io
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from snapshot import tensors
from snapshot.errors import ImportRefused, UnsupportedDtypeError
from snapshot.format import FILLER_PREFIX, METADATA_KEY, Placement
from snapshot.imports import gguf, huggingface, onnx, torch_file
from snapshot.imports.convert import CONVERTIBLE, DTYPES, Conversions, config_name, converted
from snapshot.imports.detect import detect
from snapshot.imports.incoming import Incoming, Model, listed
from snapshot.manifest import Manifest, View
from snapshot.plan import DEFAULT_SHARD_BYTES, split
from snapshot.reducers import kept_folder
from snapshot.staging import staged_folder
from snapshot.weights import CONFIG_FILE, Weights
from snapshot.writer import write_kept, write_manifest, write_shard

Progress = Callable[[int, int], None]
"""Called with the bytes of tensors that were read, and of all tensors, as they will be stored."""

_CONFIG_DTYPES = ("dtype", "torch_dtype")


@dataclass(frozen=True, eq=False)
class Imported:
    """What came of an import.

    format: what the source was found as
    notes: what the user should know: what was chosen, left out, or lost
    """

    manifest: Manifest
    format: str
    notes: tuple[str, ...]


def import_model(
    source: Path,
    folder: Path,
    *,
    dtype: str | None = None,
    key: str | None = None,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Write the model at `source` as a snapshot in `folder`, which must not exist.

    It thaws as `Weights`, one of an ONNX model as an InferenceSession.

    dtype: the type that floating-point tensors are converted to ("fp32", "fp16", "bf16", ...; `DTYPES`)
    key: the part of a torch file to take
    Raises ImportRefused, DamagedError, UnsupportedDtypeError, SnapshotExistsError.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ImportRefused(f"{dtype!r} is no type that tensors are converted to", f"choose one of {', '.join(DTYPES)}")
    kind = detect(source)
    if key is not None and kind != "torch":
        raise ImportRefused(f"{source} has no parts to choose from by {key!r}", "leave --key to files of torch.save")
    origin: dict[str, object] = {"format": kind, "source": source.name, "dtype": dtype}
    meta: dict[str, object] = {"imported": origin}
    if kind == "onnx":
        if dtype is not None:
            raise ImportRefused(
                f"the types in {source} belong to its operators, and are not converted",
                "import it without --dtype, or export it with the other type",
            )
        return Imported(onnx.import_model(source, folder, meta=meta), kind, ())
    model = _read(kind, source, key)
    if model.metadata:
        origin["metadata"] = dict(model.metadata)
    conversions = Conversions()
    model = _with_dtype(model, dtype and DTYPES[dtype], conversions)
    _check_names(source, model)
    manifest = _write(model, folder, shard_bytes=shard_bytes, meta=meta, progress=progress)
    return Imported(manifest, kind, (*model.notes, *_overflows(conversions)))


def _read(kind: str, source: Path, key: str | None) -> Model:
    if kind == "gguf":
        return gguf.read_file(source)
    if kind == "torch":
        return torch_file.read_file(source, key=key)
    if kind == "safetensors":
        return huggingface.read_single(source)
    if source.is_dir():
        return huggingface.read_folder(source)
    return huggingface.read_folder(source.parent, index=source.name)


def _with_dtype(model: Model, asked: str | None, conversions: Conversions) -> Model:
    """The model with its tensors, and what its configuration says of them, in the type asked for, if any."""
    dtype = asked or model.default_dtype
    if dtype is None:
        return model
    if model.config is not None and "quantization_config" in model.config:
        raise ImportRefused(
            "the model is quantised, and its scales would not fit values of another type", "import it without --dtype"
        )
    kept = {tensor.dtype for tensor in model.tensors if tensor.dtype not in CONVERTIBLE}
    files = dict(model.files)
    if model.config is not None:
        config = _config_with_dtype(model.config, config_name(dtype))
        files[CONFIG_FILE] = json.dumps(config, indent=2, ensure_ascii=False).encode()
    notes = (f"kept as they are: tensors of type {listed(kept)}",) if kept else ()
    return replace(
        model,
        tensors=tuple(converted(tensor, dtype, conversions) for tensor in model.tensors),
        files=files,
        notes=(*model.notes, *notes),
    )


def _config_with_dtype(config: Mapping[str, object], name: str) -> dict[str, object]:
    """A configuration, and those inside of it, with another type; where it names none, nothing is added."""
    return {
        key: _config_with_dtype(value, name) if isinstance(value, dict) else name if key in _CONFIG_DTYPES else value
        for key, value in config.items()
    }


def _check_names(source: Path, model: Model) -> None:
    for tensor in model.tensors:
        if tensor.name.startswith(FILLER_PREFIX) or tensor.name == METADATA_KEY:
            raise ImportRefused(
                f"{source} calls a tensor {tensor.name!r}, which the format keeps for itself", "rename it"
            )
        if tensors.dtype_name(tensor.dtype) is None:
            raise UnsupportedDtypeError(
                f"{source}: tensor {tensor.name!r} is {tensor.dtype}, which torch cannot express"
            )


def _overflows(conversions: Conversions) -> Iterator[str]:
    if lost := conversions.overflowed:
        values = sum(lost.values())
        yield f"{values} values of {len(lost)} tensors are too large for the type and no longer finite: {listed(lost)}"


def _write(model: Model, folder: Path, *, shard_bytes: int, meta: dict[str, object], progress: Progress) -> Manifest:
    total = sum(tensor.num_bytes for tensor in model.tensors)
    done = 0

    def counted(pieces: Iterable[memoryview | bytes]) -> Iterator[memoryview | bytes]:
        nonlocal done
        for piece in pieces:
            yield piece
            done += len(piece)
            progress(done, total)

    with staged_folder(folder) as staging:
        shards = tuple(
            write_shard(staging, number, list(map(_placement, shard)), (counted(tensor.pieces()) for tensor in shard))
            for number, shard in enumerate(
                split(model.tensors, lambda t: t.num_bytes, shard_bytes=shard_bytes), start=1
            )
        )
        views = _views(model)
        return write_manifest(
            staging,
            _skeleton([view.name for view in views], has_files=bool(model.files)),
            shards=shards,
            views=views,
            files=tuple(write_kept(staging, 0, model.files)),
            libraries={},
            meta=msgspec.json.decode(msgspec.json.encode(meta), type=dict[str, object]),
        )


def _placement(tensor: Incoming) -> Placement:
    return Placement(tensor.name, tensor.dtype, tensor.shape, tensor.num_bytes)


def _views(model: Model) -> tuple[View, ...]:
    numbers = {tensor.name: number for number, tensor in enumerate(model.tensors)}
    named = {**{name: name for name in numbers}, **model.aliases}
    return tuple(
        View(
            tensor=numbers[owner],
            form="torch",
            name=name,
            dtype=tensors.dtype_name(model.tensors[numbers[owner]].dtype) or "",
            shape=model.tensors[numbers[owner]].shape,
        )
        for name, owner in named.items()
    )


@dataclass(frozen=True)
class _Reference:
    """Stands in a skeleton for a view, by its number, or for a kept folder, by its path."""

    to: int | str


class _SkeletonPickler(pickle.Pickler):
    def persistent_id(self, one: object) -> int | str | None:
        return one.to if type(one) is _Reference else None


class _Skeleton:
    """Pickles as the `Weights` that are to be."""

    def __init__(self, names: Iterable[str], folder: _Reference | None) -> None:
        self._made_of = {name: _Reference(number) for number, name in enumerate(names)}, folder

    def __reduce__(self) -> tuple[type[Weights], tuple[object, ...]]:
        return Weights, self._made_of


def _skeleton(names: Iterable[str], *, has_files: bool) -> bytes:
    file = io.BytesIO()
    folder = _Reference(kept_folder(0)) if has_files else None
    _SkeletonPickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(_Skeleton(names, folder))
    return file.getvalue()
