"""What a source is, told from its first bytes and its name."""

import os
from pathlib import Path
from typing import Literal

from snapshot.errors import ImportRefused
from snapshot.imports.incoming import first_bytes
from snapshot.imports.shard_index import is_index

Format = Literal["huggingface", "safetensors", "torch", "gguf", "onnx"]

_GGUF_MARK = b"GGUF"
_ZIP_MARK, _PICKLE_MARK = b"PK\x03\x04", b"\x80"
_OF_SUFFIX: dict[str, Format] = {
    ".safetensors": "safetensors", ".onnx": "onnx", ".ort": "onnx", ".gguf": "gguf", ".pt": "torch", ".pth": "torch",
    ".bin": "torch", ".ckpt": "torch",
}  # fmt: skip
_KNOWN = "it may be a Hugging Face model folder, *.safetensors, *.pt, *.pth, *.bin, *.gguf or *.onnx"


def detect(source: Path) -> Format:
    """Raises ImportRefused when there is nothing at `source`, or nothing that is known; DamagedError."""
    if not source.exists():
        where = f"{source} is a link to {os.readlink(source)}, which" if source.is_symlink() else str(source)
        raise ImportRefused(f"{where} is not there", "download the model first, and name its folder or file")
    if not (source.is_dir() or source.is_file()):  # which would be waited for, and cannot be read twice
        raise ImportRefused(f"{source} is a pipe or a device", "write the model to a file first, and name that")
    if source.is_dir() or is_index(source.name):
        return "huggingface"
    begin = first_bytes(source)
    if begin.startswith(_GGUF_MARK):
        return "gguf"
    of_suffix = _OF_SUFFIX.get(source.suffix.lower())
    if begin[8:9] == b"{" and not begin.startswith((_ZIP_MARK, _PICKLE_MARK)) and of_suffix in (None, "torch"):
        return "safetensors"  # whatever its name
    if of_suffix:
        return of_suffix
    if begin.startswith((_ZIP_MARK, _PICKLE_MARK)):
        return "torch"
    raise ImportRefused(f"{source} is of no format that is known here", _KNOWN)
