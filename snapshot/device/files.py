"""Tensor files of the safetensors format, whoever wrote them, to a device."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from snapshot.device.device import Device, open_device
from snapshot.device.layout import Span
from snapshot.device.loading import reads_direct
from snapshot.device.transfer import Source, Transfer
from snapshot.errors import BadHeaderError, ThawError
from snapshot.format import FILLER_PREFIX, Entry, Header, read_header
from snapshot.loader import LoadMode, facts_of
from snapshot.mapping import opened

if TYPE_CHECKING:
    import torch


def load_files(
    paths: Sequence[Path], device: str | Device = "cuda", *, load: LoadMode = "auto"
) -> dict[str, "torch.Tensor"]:
    """All tensors of `paths` by name, on the device.

    load: "direct" reads past the page cache, and so does "auto" when what is cold does not fit in memory
    Raises BadHeaderError, SizeMismatchError, UnsupportedDtypeError, DeviceError.
    """
    with _Files(paths, device, load) as files:
        return files.tensors()


def load_module(
    build: Callable[[], "torch.nn.Module"],
    paths: Sequence[Path],
    device: str | Device = "cuda",
    *,
    load: LoadMode = "auto",
) -> "torch.nn.Module":
    """The module that `build` makes, with the parameters and buffers of `paths`.

    It is built on the meta device, without memory and without initialising anything, while the bytes are on their way.
    Raises ThawError when files and module do not fit, or when part of it is in no file; else as `load_files` does.
    """
    # Local: torch, which this package is imported without.
    import torch

    with _Files(paths, device, load) as files:
        with torch.device("meta"):
            module = build()
        try:
            module.load_state_dict(files.tensors(), assign=True)
        except RuntimeError as error:
            raise ThawError(f"the files do not fit {type(module).__name__}: {error}") from error
    left = [name for name, part in (*module.named_parameters(), *module.named_buffers()) if part.is_meta]
    if left:
        raise ThawError(
            f"{type(module).__name__} has parts that are in no file: {', '.join(left[:5])}; save them too "
            f"(a buffer with persistent=True) or load the module where it makes them itself"
        )
    return module


class _Files:
    """Files on their way to a device."""

    def __init__(self, paths: Sequence[Path], device: str | Device, load: LoadMode) -> None:
        self._entries: dict[str, tuple[int, int, Entry]] = {}
        self._direct = reads_direct(load, facts_of(paths))
        sources: list[Source] = []
        for number, path in enumerate(paths):
            with opened(path) as descriptor:
                header = read_header(path, descriptor)
            sources.append(self._source(number, path, header))
        self._transfer = Transfer(open_device(device) if isinstance(device, str) else device, sources)

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        self._transfer.close()

    def _source(self, number: int, path: Path, header: Header) -> Source:
        spans: list[Span] = []
        for name, entry in header.entries.items():
            if name.startswith(FILLER_PREFIX):
                continue
            if name in self._entries:
                raise BadHeaderError(path, f"holds tensor {name!r}, which an earlier file holds too")
            self._entries[name] = (number, len(spans), entry)
            begin, end = entry.data_offsets
            spans.append(Span(header.data_start + begin, end - begin))
        return Source(path, header.file_bytes, tuple(spans), self._direct)

    def tensors(self) -> dict[str, "torch.Tensor"]:
        """All of them by name, once all are there."""
        # Local: torch, which this package is imported without.
        from snapshot import tensors

        made = {}
        for name, (file, span, entry) in self._entries.items():
            storage = cast("torch.UntypedStorage", self._transfer.part(file, span))
            made[name] = tensors.from_storage(name, entry.dtype, entry.shape, storage)
        self._transfer.wait()
        return made
