"""Ways to have files of tensors on a GPU, each in a process of its own, and what the machine could do at best.

    python -m benchmarks.device_loading make FOLDER LAYERS FILES  writes the files; fewer where there is no room
    python -m benchmarks.device_loading warm FOLDER ROUNDS        page cache warm: pinned copies, ours, safetensors
    python -m benchmarks.device_loading cold FOLDER               page cache dropped, one file
    python -m benchmarks.device_loading registered FOLDER         one file in a memfd registered with CUDA
    python -m benchmarks.device_loading first WAY FOLDER          a process's first load, its context with it

Prints one line of JSON: rates in GB/s (1e9 bytes), durations in seconds.
"""

import ctypes
import json
import mmap
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import safetensors.torch
import torch

from snapshot import TensorFile
from snapshot.device import load_files
from snapshot.free_memory import available_bytes

LAYER_BYTES = 128 << 20
_PINNED_BYTES = 64 << 20
_GPU = "cuda:0"

Load = Callable[[list[Path]], dict[str, torch.Tensor]]


def _safetensors(paths: list[Path]) -> dict[str, torch.Tensor]:
    return {name: tensor for path in paths for name, tensor in safetensors.torch.load_file(path, device=_GPU).items()}


WAYS: dict[str, Load] = {
    "ours": partial(load_files, device=_GPU),
    "ours, direct": partial(load_files, device=_GPU, load="direct"),
    "safetensors": _safetensors,
}


def why_not() -> str | None:
    """Why nothing can be measured here; None when it can."""
    if torch.version.cuda is None:
        return "this torch is built without CUDA"
    return None if torch.cuda.device_count() else "there is no GPU that this process may use"


def make(folder: Path, num_layers: int, num_files: int) -> dict[str, Any]:
    """Write files of that many layers: bfloat16, three matrices and two vectors each."""
    file_bytes = num_layers * LAYER_BYTES
    rooms = (shutil.disk_usage(folder).free // 2, available_bytes() // 3, torch.cuda.mem_get_info(_GPU)[0] // 3)
    num_files = max(1, min(num_files, *(room // file_bytes for room in rooms)))
    layers = {}
    for number in range(num_layers):
        for name, shape in (
            ("q", (4096, 4096)),
            ("k", (4096, 4096)),
            ("up", (4096, 8192)),
            ("n1", (4096,)),
            ("n2", (4096,)),
        ):
            layers[f"{number}.{name}"] = torch.randint(-(1 << 15), 1 << 15, shape, dtype=torch.int16)
    for number in range(num_files):
        path = folder / f"{number}.safetensors"
        safetensors.torch.save_file(
            {f"{number}.{name}": tensor.view(torch.bfloat16) for name, tensor in layers.items()}, path
        )
        _written(path)
    return {"num_bytes": sum(path.stat().st_size for path in files_of(folder))}


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _written(path: Path) -> None:
    """On the disk, so that writing it does not go on while something is measured, and its pages can be dropped."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _drop(path: Path) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _s(work: Callable[[], object]) -> float:
    """How long `work` takes until the device has done it, with no memory kept from what went before."""
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    began_at = time.perf_counter()
    made = work()
    torch.cuda.synchronize()
    took_s = time.perf_counter() - began_at
    del made
    return took_s


def _pinned_copies(num_bytes: int) -> float:
    """How long bare copies of `num_bytes` take: pinned memory that is there, to device memory that is there."""
    pinned = torch.ones(_PINNED_BYTES, dtype=torch.uint8).pin_memory()
    target = torch.empty(16 * _PINNED_BYTES, dtype=torch.uint8, device=_GPU)
    parts = target.split(_PINNED_BYTES)

    def copy() -> None:
        for number in range(num_bytes // _PINNED_BYTES):
            parts[number % len(parts)].copy_(pinned, non_blocking=True)

    return _s(copy) * num_bytes / (num_bytes // _PINNED_BYTES * _PINNED_BYTES)


def warm(folder: Path, num_rounds: int) -> dict[str, Any]:
    """Rates with everything in the page cache, in turns, after one load of each that is not counted."""
    paths = files_of(folder)
    num_bytes = sum(path.stat().st_size for path in paths)
    _compare(paths[0])
    ways = {"pinned copies": partial(_pinned_copies, num_bytes)} | {
        name: partial(_s, partial(WAYS[name], paths)) for name in ("ours", "safetensors")
    }
    for way in ways.values():
        way()
    rounds = [{name: num_bytes / way() / 1e9 for name, way in ways.items()} for _ in range(num_rounds)]
    return {name: median(each[name] for each in rounds) for name in ways} | {
        "ours over pinned copies": median(each["ours"] / each["pinned copies"] for each in rounds),
        "ours over safetensors": median(each["ours"] / each["safetensors"] for each in rounds),
    }


def _compare(path: Path) -> None:
    """Raise when what arrives is not what the file holds."""
    arrived, file = load_files([path], _GPU), TensorFile(path)
    for name, tensor in arrived.items():
        if not torch.equal(tensor.cpu().view(torch.uint8), file.tensor(name).view(torch.uint8)):
            raise AssertionError(f"{name} has not arrived as it is in the file")


def cold(folder: Path) -> dict[str, Any]:
    """Rates from the disk, once the context is there."""
    path = files_of(folder)[0]
    for way in WAYS.values():
        way([path])
    rates = {}
    for name, way in WAYS.items():
        _drop(path)
        rates[name] = path.stat().st_size / _s(partial(way, [path])) / 1e9
    return rates


def registered(folder: Path) -> dict[str, Any]:
    """Memory that was not allocated as pinned and is registered afterwards, as shared weights would be."""
    path = files_of(folder)[0]
    num_bytes = path.stat().st_size
    descriptor = os.memfd_create("weights")
    os.ftruncate(descriptor, num_bytes)
    memory = mmap.mmap(descriptor, num_bytes)
    os.close(descriptor)
    with open(path, "rb") as file:
        file.readinto(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    host = torch.frombuffer(memory, dtype=torch.uint8)
    target = torch.empty(num_bytes, dtype=torch.uint8, device=_GPU)
    unregistered_s = _s(lambda: target.copy_(host, non_blocking=True))
    cudart = torch.cuda.cudart()
    register_s = _s(lambda: torch.cuda.check_error(cudart.cudaHostRegister(address, num_bytes, 0)))
    copy_s = min(_s(lambda: target.copy_(host, non_blocking=True)) for _ in range(3))
    torch.cuda.check_error(cudart.cudaHostUnregister(address))
    return {
        "register, s per GB": register_s / num_bytes * 1e9,
        "copy": num_bytes / copy_s / 1e9,
        "copy unregistered": num_bytes / unregistered_s / 1e9,
        "copy over pinned copies": _pinned_copies(num_bytes) / copy_s,
    }


def first(way: str, folder: Path) -> dict[str, Any]:
    """Seconds from torch imported to the first file there, with the making of the context."""
    began_at = time.perf_counter()
    WAYS[way](files_of(folder)[:1])
    torch.cuda.synchronize()
    return {"s": time.perf_counter() - began_at}


def main(arguments: list[str]) -> int:
    """Do as the command line says; what goes wrong is told on the standard output too."""
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "make": lambda: make(Path(arguments[1]), int(arguments[2]), int(arguments[3])),
        "warm": lambda: warm(Path(arguments[1]), int(arguments[2])),
        "cold": lambda: cold(Path(arguments[1])),
        "registered": lambda: registered(Path(arguments[1])),
        "first": lambda: first(arguments[1], Path(arguments[2])),
    }
    try:
        print(json.dumps(works[arguments[0]]()), flush=True)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
