"""A model folder as the Hugging Face hub has it: config, safetensors with or without an index, tokenizer files.

Neither transformers nor torch is needed to read it. Only what the index names is read as weights, so that a stray
copy beside the shards changes nothing. Links are followed, since the hub's own cache is made of them.
"""

import os
import re
from pathlib import Path

from snapshot.errors import DamagedError, ImportRefused, MissingShardsError, UnsupportedDtypeError
from snapshot.format import DTYPE_BITS, FILLER_PREFIX, Header
from snapshot.imports.incoming import Incoming, Model, first_bytes, in_file, listed
from snapshot.imports.order import load_order
from snapshot.imports.shard_index import (
    INDEX_SUFFIX,
    check_present,
    header_of,
    is_index,
    read_headers,
    read_index,
    read_json_object,
)

CONFIG_FILE = "config.json"
_SINGLE = "model.safetensors"
_SAFETENSORS = ".safetensors"
_SHARD = re.compile(r"-\d+-of-0*(?P<count>[2-9]|[1-9]\d+)(\.[\w-]+)?\.safetensors$")
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_KEPT_SUFFIXES = frozenset({".json", ".txt", ".model", ".jinja", ".tiktoken", ".spm", ".vocab", ".bpe"})
_EMBEDDINGS, _HEAD = "model.embed_tokens.weight", "lm_head.weight"


def read_folder(folder: Path, *, index: str | None = None) -> Model:
    """A model folder; `index` names which of its indexes is meant, where the usual names do not tell.

    Raises ImportRefused, DamagedError, UnsupportedDtypeError.
    """
    folder = _checked_out(folder)
    config = read_json_object(folder / CONFIG_FILE) if os.path.lexists(folder / CONFIG_FILE) else None
    headers, notes = _headers(folder, index)
    tensors = _tensors(folder, headers)
    metadata = _metadata(headers)
    kept, kept_notes = _kept(folder)
    if config is None:
        notes.append(f"{folder} has no {CONFIG_FILE}: what the weights belong to is not told")
    return Model(
        tensors=tensors,
        aliases=_tied(config or {}, metadata, {tensor.name for tensor in tensors}),
        files=kept,
        config=config,
        metadata=metadata,
        notes=(*notes, *kept_notes),
    )


def read_single(file: Path) -> Model:
    """One safetensors file, without what lies beside it."""
    headers = {file.name: header_of(file)}
    tensors, metadata = _tensors(file.parent, headers), _metadata(headers)
    return Model(tensors, _tied({}, metadata, {tensor.name for tensor in tensors}), metadata=metadata)


def _checked_out(folder: Path) -> Path:
    """The files of a repository in the hub's cache: those of its main branch, or the only ones; else the folder itself.

    Raises ImportRefused when it holds several, or none.
    """
    snapshots = folder / "snapshots"
    if not folder.name.startswith("models--") or not snapshots.is_dir():
        return folder
    main = folder / "refs" / "main"
    found = sorted(one.name for one in snapshots.iterdir() if one.is_dir())
    wanted = main.read_text().strip() if main.is_file() else found[0] if len(found) == 1 else None
    if wanted in found:
        return snapshots / wanted
    among = f"it has: {listed(found)}" if found else "it has none"
    raise ImportRefused(
        f"{folder} is a repository of the hub's cache, and has no {wanted or 'main branch'} here; {among}",
        f"name the files to import: {snapshots / (found[0] if found else 'REVISION')}",
    )


def _headers(folder: Path, asked: str | None) -> tuple[dict[str, Header], list[str]]:
    """The headers of the files that are the model, and notes on those that are not."""
    names = sorted(os.listdir(folder))
    files = [name for name in names if name.endswith(_SAFETENSORS)]
    indexes = [name for name in names if name.endswith(INDEX_SUFFIX)]
    if not indexes and all(map(_SHARD.search, files)):  # else a model lies there whole, whatever variants it has
        indexes = [name for name in names if is_index(name)]
    if asked or indexes:
        index = read_index(
            folder / (asked or _one_of(folder, indexes, _SINGLE.removesuffix(_SAFETENSORS) + INDEX_SUFFIX))
        )
        check_present(index)
        headers = read_headers(index)
        return headers, _notes(index.path, headers, [file for file in files if file not in headers], index.total_bytes)
    if not files:
        raise _no_weights(folder, names)
    file = _one_of(folder, files, _SINGLE)
    if part := _SHARD.search(file):
        raise MissingShardsError(
            f"{folder} holds {file}, one of {int(part['count'])} shards, and no index of them",
            "download or copy the whole model again",
            missing=[_SINGLE.removesuffix(_SAFETENSORS) + INDEX_SUFFIX],
        )
    strays = [other for other in files if other != file]
    return {file: header_of(folder / file)}, _notes(folder / file, {}, strays, None)


def _one_of(folder: Path, files: list[str], usual: str) -> str:
    """The file that is the model: the one of the usual name, or the only one."""
    if usual in files:
        return usual
    if len(files) > 1:
        raise ImportRefused(
            f"{folder} holds several models, or shards without an index: {listed(files)}",
            f"name the one to import: faas snapshot import {folder / files[0]}",
        )
    return files[0]


def _notes(path: Path, headers: dict[str, Header], strays: list[str], total_bytes: int | None) -> list[str]:
    notes = []
    if strays:
        notes.append(f"not read, since {path.name} does not name it: {listed(strays)}")
    found = sum(header.file_bytes - header.data_start for header in headers.values())
    if total_bytes is not None and total_bytes != found:
        notes.append(f"{path.name} says {total_bytes} bytes of tensors, its files hold {found}")
    return notes


def _no_weights(folder: Path, names: list[str]) -> ImportRefused:
    pickled = [name for name in names if name.endswith(_PICKLED)]
    if len(pickled) == 1:
        then = f"faas snapshot import {folder / pickled[0]} reads that file, without running code of it"
        return ImportRefused(f"{folder} has its weights in {pickled[0]} alone, a pickle", then)
    if pickled:
        then = "save the model again as safetensors (save_pretrained does), or import the files one by one"
        return ImportRefused(f"{folder} has its weights in pickles alone: {listed(pickled)}", then)
    if other := [name for name in names if name.endswith((".gguf", ".onnx", ".ort"))]:
        return ImportRefused(f"{folder} is no model folder; it holds {listed(other)}", f"name the file: {other[0]}")
    return ImportRefused(
        f"{folder} holds no weights: neither *.safetensors nor *{INDEX_SUFFIX}", "name the folder or file that does"
    )


def _tensors(folder: Path, headers: dict[str, Header]) -> tuple[Incoming, ...]:
    found: dict[str, Incoming] = {}
    for file, header in headers.items():
        for name, entry in header.entries.items():
            if name.startswith(FILLER_PREFIX):
                continue
            if entry.dtype not in DTYPE_BITS:
                raise UnsupportedDtypeError(
                    f"{folder / file}: tensor {name!r} is {entry.dtype}, which is not known here"
                )
            begin, end = entry.data_offsets
            pieces = in_file(folder / file, header.data_start + begin, end - begin)
            found[name] = Incoming(name, entry.dtype, entry.shape, pieces)
    return tuple(found[name] for name in load_order(found))


def _metadata(headers: dict[str, Header]) -> dict[str, str]:
    return {key: value for header in headers.values() for key, value in header.metadata.items()}


def _tied(config: dict[str, object], metadata: dict[str, str], names: set[str]) -> dict[str, str]:
    """Names that files leave out and modules want, each with the name of the tensor that it stands for.

    Safetensors' `save_model` writes them into the metadata. The output head of a language model that shares its
    embeddings is told by the configuration.
    """
    tied = {left_out: kept for left_out, kept in metadata.items() if kept in names and left_out not in names}
    if config.get("tie_word_embeddings") is True and _EMBEDDINGS in names and _HEAD not in names:
        tied.setdefault(_HEAD, _EMBEDDINGS)
    return tied


def _kept(folder: Path) -> tuple[dict[str, Path | bytes], list[str]]:
    """Configuration and tokenizer files, those of the folders just below too.

    Raises DamagedError for dead links, and for what only stands for a file.
    """
    kept: dict[str, Path | bytes] = {}
    code = []
    for path in sorted([*folder.iterdir(), *folder.glob("*/*")]):
        name = path.relative_to(folder).as_posix()
        if name.startswith(".") or "/." in name or name.endswith(".index.json") or is_index(path.name):
            continue
        if path.suffix == ".py":
            code.append(name)
        if path.suffix not in _KEPT_SUFFIXES:
            continue
        if path.is_symlink() and not path.exists():
            raise DamagedError(path, f"is a link to {os.readlink(path)}, which is not there")
        if path.is_file():
            first_bytes(path)
            kept[name] = path
    return kept, [f"not kept, since it is code: {listed(code)}"] if code else []
