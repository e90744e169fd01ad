"""How long batches take, from one instance to the next: kept beside the snapshot that they were computed with.

An instance that ends writes down what it saw; one that begins knows it. The file is `times.json` in the snapshot's
folder, replaced as a whole. What was seen counts for one kind of device, with as many threads, and for no other.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from faas import settings
from faas.engine.latency_model import LatencyModel, Profile
from faas.function import Function

FILE: Final = "times.json"

_FORMAT: Final = 1
_FEW: Final = 20
_CPUINFO: Final = Path("/proc/cpuinfo")

logger = logging.getLogger(__name__)


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """By device, and by endpoint and bucket: size, usual seconds, most seconds."""

    format: int = _FORMAT
    devices: dict[str, dict[str, list[tuple[int, float, float]]]]


class Times:
    """What is known of the batches of one function that promises something, in one process.

    It can be read ahead of need, in a zygote: what device it is for is asked when an engine is made.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._folder: Path | None = None
        self._kept = _Kept(devices={})
        self._models: dict[str, LatencyModel] = {}

    def read(self, folder: Path) -> None:
        """Know what was kept beside the snapshot in `folder`."""
        self._folder = folder
        self._kept = _read(folder / FILE)

    def model(self, path: str, label: str, padded: Callable[[int], int]) -> LatencyModel:
        """Return the latency model for a batcher of an endpoint, which knows what is kept of it."""
        name = f"{path} {label}" if label else path
        found: Profile = ()
        if self._kept.devices:
            found = self._kept.devices.get(self._device(), {}).get(name, ())
        self._models[name] = made = LatencyModel(padded, found)
        return made

    def keep(self) -> None:
        """Write down what was seen since, where that is enough to go by. A folder that takes no files is left alone."""
        seen = {path: list(model.profile()) for path, model in self._models.items() if model.num_observed >= _FEW}
        if self._folder is None or not any(seen.values()):
            return
        path = self._folder / FILE
        devices = _read(path).devices
        device = self._device()
        kept = _Kept(devices={**devices, device: {**devices.get(device, {}), **seen}})
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
            temporary.replace(path)
        except OSError as error:
            logger.info("what was seen of batches is not kept: %s", error)

    def _device(self) -> str:
        threads = settings.read().num_threads or os.cpu_count()
        return f"{kind(self._function.spec.resources.num_gpus)}, threads: {threads}"


def kind(num_gpus: int) -> str:
    """Return what computes here, in words that differ wherever its speed would: a slice of a GPU is no whole one."""
    torch = sys.modules.get("torch") if num_gpus else None
    if torch is not None and torch.cuda.is_available():
        found = torch.cuda.get_device_properties(torch.cuda.current_device())
        return f"{num_gpus} x {found.name}, {found.multi_processor_count} SMs, {found.total_memory >> 20} MiB"
    return _processor()


def _processor() -> str:
    try:
        with _CPUINFO.open() as file:
            head = file.read(4096)  # of the first processor: the whole file takes long where there are many
    except OSError:
        head = ""
    lines = (line.partition(":") for line in head.splitlines() if line.startswith("model name"))
    return next((value.strip() for _, _, value in lines), platform.machine())


def _read(path: Path) -> _Kept:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError):
        return _Kept(devices={})
    return kept if kept.format == _FORMAT else _Kept(devices={})
