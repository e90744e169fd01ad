"""Ways to have a module back from files, each tried in a process of its own that has its imports already.

python -m benchmarks.loading WAY FOLDER SIZE     loads, infers once, and prints the times as one line of JSON
python -m benchmarks.loading make FOLDER SIZE    writes the files that all ways load
python -m benchmarks.loading share FOLDER N      N forks that thaw, infer and stay; prints their ids when all have
"""

import gc
import json
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import snapshot
from benchmarks import llama
from benchmarks.llama import Llama, Shape, built, first_inference

SHAPES = {"full": llama.FULL, "quick": llama.QUICK}
SNAPSHOT, SAFETENSORS, PICKLED, TENSORIZED = "snapshot", "model.safetensors", "model.pt", "model.tensors"


@dataclass(frozen=True)
class Way:
    """A way to load: `load` gets the folder and a module that was built before the clock starts, on `device`.

    needs: the distribution that it takes, beside torch and safetensors
    reads: the file or folder that it loads
    """

    load: Callable[[Path, Llama], Llama]
    reads: str = SAFETENSORS
    device: str = "meta"
    needs: str | None = None


def _assigned(model: Llama, weights: dict[str, torch.Tensor]) -> Llama:
    model.load_state_dict(weights, assign=True)
    return model


def _thaw(folder: Path, _: Llama) -> Llama:
    model: Llama = snapshot.thaw(folder / SNAPSHOT).state
    return model


def _copy(folder: Path, model: Llama) -> Llama:
    model.load_state_dict(safetensors.torch.load_file(folder / SAFETENSORS))
    return model


def _map_by_hand(folder: Path, model: Llama) -> Llama:
    with open(folder / SAFETENSORS, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    (length,) = struct.unpack("<Q", mapped[:8])
    weights = {}
    for name, entry in json.loads(mapped[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(mapped, dtype=torch.float32, offset=8 + length + begin, count=(end - begin) // 4)
            weights[name] = flat.view(entry["shape"])
    return _assigned(model, weights)


def _torch_mmap(folder: Path, model: Llama) -> Llama:
    return _assigned(model, torch.load(folder / PICKLED, mmap=True, weights_only=True))


def _load_file(folder: Path, model: Llama) -> Llama:
    return _assigned(model, safetensors.torch.load_file(folder / SAFETENSORS))


def _fastsafetensors(folder: Path, model: Llama) -> Llama:
    from fastsafetensors import fastsafe_open

    with fastsafe_open([str(folder / SAFETENSORS)], nogds=True, device="cpu") as file:
        return _assigned(model, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118  # no mapping


def _runai(folder: Path, model: Llama) -> Llama:
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_file(str(folder / SAFETENSORS))
        return _assigned(model, dict(streamer.get_tensors()))


def _tensorizer(folder: Path, model: Llama) -> Llama:
    from tensorizer import TensorDeserializer

    with TensorDeserializer(str(folder / TENSORIZED), device="cpu") as deserializer:
        deserializer.load_into_module(model)
    return model


WAYS = {
    "thaw": Way(_thaw, SNAPSHOT),
    "load_file and load_state_dict": Way(_copy, device="cpu"),
    "map and assign by hand": Way(_map_by_hand),
    "torch.load(mmap)": Way(_torch_mmap, PICKLED),
    "safetensors": Way(_load_file),
    "fastsafetensors": Way(_fastsafetensors, needs="fastsafetensors"),
    "runai-model-streamer": Way(_runai, needs="runai-model-streamer"),
    "tensorizer": Way(_tensorizer, TENSORIZED, needs="tensorizer"),
}


def make(folder: Path, shape: Shape) -> None:
    """Write one module in every form."""
    model = llama.initialised(shape)
    snapshot.freeze(model, folder / SNAPSHOT)
    safetensors.torch.save_file(model.state_dict(), folder / SAFETENSORS)
    torch.save(model.state_dict(), folder / PICKLED)
    try:
        from tensorizer import TensorSerializer
    except ImportError:
        return
    serializer = TensorSerializer(str(folder / TENSORIZED))
    serializer.write_module(model)
    serializer.close()


def share(folder: Path, num: int) -> None:
    """Fork from a process with all imports, as a zygote does, print the forks' ids when they have answered, and stay.

    They end when this process does.
    """
    gc.freeze()
    ready, lives = os.pipe(), os.pipe()
    pids = []
    for _ in range(num):
        if pid := os.fork():
            pids.append(pid)
            continue
        os.close(lives[1])
        model = snapshot.thaw(folder / SNAPSHOT).state
        first_inference(model)  # and is held, as an instance holds it
        os.write(ready[1], b".")
        os.read(lives[0], 1)
        os._exit(0)
    os.close(ready[1])
    if sum(len(os.read(ready[0], 1)) for _ in pids) == num:
        print(json.dumps(pids), flush=True)
        signal.pause()


def attempt(way: Way, folder: Path, shape: Shape) -> dict[str, Any]:
    """Load and infer once; what is imported, and the module built, before the clock starts is nobody's."""
    if way.needs:
        __import__(way.needs.replace("-", "_"))
    model = built(shape, way.device)
    if way.device != "meta":
        for weights in model.parameters():
            weights.zero_()
    with torch.inference_mode():
        torch.ones(8, 8) @ torch.ones(8, 8)  # what torch does at its first product
    began_at = time.monotonic()
    model = way.load(folder, model)
    loaded_at = time.monotonic()
    logits = first_inference(model)
    done_at = time.monotonic()
    return {"load_ms": (loaded_at - began_at) * 1e3, "inference_ms": (done_at - loaded_at) * 1e3, "logits": logits}


def main(what: str, folder: str, size: str) -> None:
    """Do as the command line says."""
    if what == "make":
        make(Path(folder), SHAPES[size])
    elif what == "share":
        share(Path(folder), int(size))
    else:
        print(json.dumps(attempt(WAYS[what], Path(folder), SHAPES[size])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
