"""Files of tensors to a GPU: against the machine's own pinned copies, and against safetensors."""

import json
from typing import Any

from benchmarks.area import Bench
from benchmarks.device_loading import LAYER_BYTES
from benchmarks.processes import script
from benchmarks.rows import Row, at_least

_LEAST_OF_PINNED = 0.85


async def warm(bench: Bench) -> list[Row]:
    num_bytes, folder = await _made(bench)
    found = await _run("warm", folder, bench.choose(5, 2))
    at = f"{num_bytes / 1e9:.1f} GB, page cache warm"
    return [
        *(Row(f"{at}: {name}", found[name], "GB/s") for name in ("pinned copies", "ours", "safetensors")),
        Row(f"{at}: ours over safetensors", found["ours over safetensors"]),
        Row(f"{at}: ours over pinned copies", found["ours over pinned copies"], "", at_least(_LEAST_OF_PINNED)),
    ]


async def cold(bench: Bench) -> list[Row]:
    _, folder = await _made(bench)
    found = await _run("cold", folder)
    at = f"{_file_gb(bench):.1f} GB, page cache dropped"
    return [
        *(Row(f"{at}: {name}", rate, "GB/s") for name, rate in found.items()),
        Row(f"{at}: ours over safetensors", found["ours"] / found["safetensors"]),
    ]


async def first(bench: Bench) -> list[Row]:
    _, folder = await _made(bench)
    at = f"{_file_gb(bench):.1f} GB, first load of a process, its context with it"
    return [Row(f"{at}: {way}", (await _run("first", way, folder))["s"], "s") for way in ("ours", "safetensors")]


async def registered(bench: Bench) -> list[Row]:
    _, folder = await _made(bench)
    found = await _run("registered", folder)
    at = "memfd registered with CUDA (cudaHostRegister)"
    return [
        Row(f"{at}: registering", found["register, s per GB"], "s/GB"),
        Row(f"{at}: copy", found["copy"], "GB/s"),
        Row(f"{at}: copy without it", found["copy unregistered"], "GB/s"),
        Row(f"{at}: copy over pinned copies", found["copy over pinned copies"]),
    ]


def _num_layers(bench: Bench) -> int:
    return bench.choose(8, 2)


def _file_gb(bench: Bench) -> float:
    return _num_layers(bench) * LAYER_BYTES / 1e9


async def _made(bench: Bench) -> tuple[int, str]:
    """The bytes of the files that all measures load, and their folder; written by the first that asks."""
    folder = bench.home / "tensors"
    if not folder.exists():
        folder.mkdir()
        await _run("make", folder, _num_layers(bench), bench.choose(8, 2))
    return sum(path.stat().st_size for path in folder.iterdir()), str(folder)


async def _run(*arguments: object) -> dict[str, Any]:
    async with script("-m", "benchmarks.device_loading", *map(str, arguments)) as process:
        output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {process.returncode}:\n{output.decode()}")
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found
