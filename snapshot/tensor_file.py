"""One tensor file of the safetensors format, whoever wrote it, in memory."""

from collections.abc import KeysView
from pathlib import Path
from typing import TYPE_CHECKING

from snapshot import arrays, tensors
from snapshot.format import Header, read_header
from snapshot.loader import LoadMode, loader_for
from snapshot.mapping import opened

if TYPE_CHECKING:
    import torch


class TensorFile:
    """The tensors of a file by name, in place: writable, and what is written never reaches the file.

    load: how the file comes into memory; see `snapshot.loader`
    Raises BadHeaderError and SizeMismatchError when the file is not whole and consistent, or has not `num_bytes`;
    NotEnoughMemoryError.
    """

    def __init__(self, path: Path, *, num_bytes: int | None = None, load: LoadMode = "auto") -> None:
        with opened(path, num_bytes) as descriptor:
            self.header: Header = read_header(path, descriptor)
        self._memory = loader_for([path], load).file(path, self.header.file_bytes)

    def names(self) -> KeysView[str]:
        """The names of all tensors."""
        return self.header.entries.keys()

    def memory(self, name: str) -> memoryview:
        """The bytes of a tensor, whatever its type. Raises KeyError."""
        begin, end = self.header.entries[name].data_offsets
        return self._memory[self.header.data_start + begin : self.header.data_start + end]

    def array(self, name: str) -> "arrays.Array":
        """A tensor as a numpy array. Raises KeyError, and UnsupportedDtypeError when numpy has no such type."""
        entry = self.header.entries[name]
        return arrays.from_stored(name, entry.dtype, entry.shape, self.memory(name))

    def tensor(self, name: str) -> "torch.Tensor":
        """A tensor as torch has it. Raises KeyError, and UnsupportedDtypeError when torch has no such type."""
        entry = self.header.entries[name]
        return tensors.from_stored(name, entry.dtype, entry.shape, self.memory(name))
