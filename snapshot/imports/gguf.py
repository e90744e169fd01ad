"""A language model in a GGUF file, as transformers' class for it wants it: names, configuration, tokenizer.

What ggml packs in blocks is unpacked by the `gguf` package, a run of rows at a time.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapshot.errors import DamagedError, ImportRefused, SizeMismatchError
from snapshot.imports import gguf_llama, gguf_tokenizer
from snapshot.imports.convert import CONVERTIBLE, DTYPES, config_name
from snapshot.imports.gguf_header import GgufHeader, GgufTensor, parse_gguf
from snapshot.imports.incoming import PIECE_BYTES, Incoming, Model, Pieces, listed
from snapshot.imports.order import load_order
from snapshot.mapping import map_private, opened
from snapshot.weights import CONFIG_FILE

if TYPE_CHECKING:
    import gguf

# Types of ggml that are stored as they are; the others are packed in blocks.
_PLAIN = frozenset({"F64", "F32", "F16", "BF16", "I8", "I16", "I32", "I64"})
_UNPACKED = "F32"
_UNPACKED_ITEM_BYTES = 4
_OF_PACKED = "fp16"


def read_file(path: Path) -> Model:
    """Raises ImportRefused, BadHeaderError, SizeMismatchError."""
    with opened(path) as descriptor:
        num_bytes = os.fstat(descriptor).st_size
        if not num_bytes:
            raise DamagedError(path, "is empty")
        content = map_private(descriptor, num_bytes, path)
    header = parse_gguf(path, content)
    kinds = {name: _kind(path, name, tensor, num_bytes) for name, tensor in header.tensors.items()}
    llama = gguf_llama.read(path, header)
    found = {
        name: _incoming(name, content, header.tensors[stored], kind=kinds[stored], rows=llama.rows_of(stored))
        for stored, name in llama.names.items()
    }
    dtype, notes = _dtype(header, kinds)
    config = {**llama.config, "dtype": config_name(dtype)}
    files, more_notes = gguf_tokenizer.files_of(header.metadata)
    return Model(
        tensors=tuple(found[name] for name in load_order(found)),
        aliases=llama.aliases,
        files={**files, CONFIG_FILE: json.dumps(config, indent=2).encode()},
        config=config,
        default_dtype=dtype,
        notes=(*llama.notes, *notes, *more_notes),
    )


def _kind(path: Path, name: str, tensor: GgufTensor, file_bytes: int) -> "gguf.GGMLQuantizationType":
    """The type of a tensor, once its bytes are known to lie in the file."""
    try:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # the way of this format alone
    except ImportError as error:
        raise ImportRefused(f"{path} is a GGUF file, and gguf is not installed", "pip install 'faas[gguf]'") from error
    try:
        kind = GGMLQuantizationType(tensor.kind)
        block, _ = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError) as error:
        raise ImportRefused(
            f"{path}: tensor {name!r} is of ggml's type {tensor.kind}, which is not known here",
            "install a later gguf, or take a file of another quantisation",
        ) from error
    if not tensor.shape or tensor.shape[-1] % block:
        raise SizeMismatchError(
            path, f"tensor {name!r} of shape {list(tensor.shape)} is no whole blocks of {kind.name}"
        )
    end = tensor.offset + prod(tensor.shape[:-1]) * _row_bytes(tensor, kind)
    if end > file_bytes:
        raise SizeMismatchError(path, f"tensor {name!r} ends at byte {end}, the file has {file_bytes}")
    return kind


def _row_bytes(tensor: GgufTensor, kind: "gguf.GGMLQuantizationType") -> int:
    from gguf.constants import GGML_QUANT_SIZES  # loaded by now

    block: int
    block_bytes: int
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return tensor.shape[-1] // block * block_bytes


def _dtype(header: GgufHeader, kinds: Mapping[str, "gguf.GGMLQuantizationType"]) -> tuple[str, list[str]]:
    """The one type for all, unless another is asked for: a module runs on tensors of one type, files hold several."""
    num_items: Counter[str] = Counter()
    for name, kind in kinds.items():
        num_items[kind.name] += prod(header.tensors[name].shape)
    if packed := [name for name in num_items if name not in _PLAIN]:
        return DTYPES[_OF_PACKED], [
            f"the file holds {listed(packed)}, unpacked (to {_OF_PACKED} unless --dtype says another)"
        ]
    floats = [(count, name) for name, count in num_items.items() if name in CONVERTIBLE]
    return (max(floats)[1] if floats else _UNPACKED), []


def _incoming(
    name: str, content: memoryview, tensor: GgufTensor, *, kind: "gguf.GGMLQuantizationType", rows: Any
) -> Incoming:
    """`rows`: the rows in the order in which they are wanted, where that is not the order of the file."""
    dtype = kind.name if kind.name in _PLAIN else _UNPACKED
    return Incoming(name, dtype, tensor.shape, _pieces(content, tensor, kind, rows))


def _pieces(content: memoryview, tensor: GgufTensor, kind: "gguf.GGMLQuantizationType", rows: Any) -> Pieces:
    def pieces() -> Iterator[memoryview]:
        import numpy as np  # the way of this format alone
        from gguf.quants import dequantize

        # A vector whose elements change places is a column: a row is what moves as one.
        num_rows = prod(tensor.shape[:-1]) if rows is None else tensor.shape[0]
        num_bytes = prod(tensor.shape[:-1]) * _row_bytes(tensor, kind)
        if not num_bytes:
            return
        packed = np.frombuffer(content, np.uint8, num_bytes, tensor.offset).reshape(num_rows, -1)
        step = max(1, PIECE_BYTES * num_rows // (prod(tensor.shape) * _UNPACKED_ITEM_BYTES))
        for begin in range(0, num_rows, step):
            block = packed[begin : begin + step] if rows is None else packed[rows[begin : begin + step]]
            values = block if kind.name in _PLAIN else dequantize(block, kind)
            yield np.ascontiguousarray(values).reshape(-1).view(np.uint8).data

    return pieces
