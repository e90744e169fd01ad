"""Ways to have a module back from S3, each tried in a process of its own that has its imports already.

python -m benchmarks.pulling make FOLDER SIZE writes a bucket that has the module as a snapshot and as a file
python -m benchmarks.pulling WAY FOLDER SIZE  loads into a new folder in FOLDER, infers once, prints the times as JSON
"""

import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch

import snapshot
from benchmarks.llama import Llama, Shape, built, first_inference, initialised
from snapshot.free_memory import available_bytes
from snapshot.s3_client import S3Client
from snapshot.s3_store import S3Store

# Of 2.0 GB and 0.2 GB as float32. What comes first is the embedding: 5 % of the bytes.
SHAPES = {
    "full": Shape(hidden=1536, feed_forward=4096, num_layers=19, num_heads=12, num_key_heads=4, vocabulary=16_000),
    "quick": Shape(hidden=512, feed_forward=1408, num_layers=17, num_heads=8, num_key_heads=4, vocabulary=5_000),
}
SNAPSHOT, SAFETENSORS = "snapshot", "model.safetensors"
BUCKET = "models"
NAME = "llama"
ADDRESS = f"s3://{BUCKET}"
_NUM_CURLS = 4
_LOADS_TAKE = 3  # times the bytes of the file, in memory and in the page cache

Marks = dict[str, float]
"""When something was there, by the monotonic clock, in seconds."""


def make(folder: Path, shape: Shape) -> None:
    """Write one module in both forms."""
    model = initialised(shape)
    snapshot.freeze(model, folder / SNAPSHOT)
    safetensors.torch.save_file(model.state_dict(), folder / SAFETENSORS)
    lay_out(folder)


def lay_out(folder: Path) -> None:
    """Make the bucket of links, as a push would leave it: what is measured is reading."""
    bucket = folder / "s3" / BUCKET
    frozen = folder / SNAPSHOT
    manifest = snapshot.read_manifest(frozen)
    home = bucket / NAME / manifest.short_digest
    home.mkdir(parents=True)
    (bucket / "blobs").mkdir()
    os.link(folder / SAFETENSORS, bucket / SAFETENSORS)
    for record in manifest.all_files:
        os.link(frozen / record.file, bucket / "blobs" / record.digest)
    (home / "manifest.json").write_bytes(manifest.encode())
    (bucket / NAME / "latest").write_text(manifest.digest)


def _pull(scratch: Path, _: Llama, marks: Marks) -> Llama:
    with S3Store(ADDRESS).pull(NAME, into=snapshot.LocalStore(scratch)) as pulling:
        model: Llama = pulling.thaw().state
        marks["rebuilt"] = time.monotonic()
        pulling.wait_for(pulling.manifest.shards[0].tensors[0].name)
        marks["first"] = time.monotonic()
        pulling.wait()
        marks["loaded"] = time.monotonic()
        pulling.finish()  # made durable; not waited for by who answers
    marks["stored"] = time.monotonic()
    return model


def _curl(scratch: Path, _: Llama, marks: Marks) -> None:
    client = S3Client(BUCKET)
    size, url = client.size(SAFETENSORS), client.signed(SAFETENSORS)
    assert size is not None
    ends = [size * part // _NUM_CURLS for part in range(_NUM_CURLS + 1)]
    marks["began"] = time.monotonic()
    curls = [
        subprocess.Popen(["curl", "-sf", "-o", str(scratch / str(begin)), "-r", f"{begin}-{end - 1}", url])
        for begin, end in pairwise(ends)
    ]
    if sum(curl.wait() for curl in curls):
        raise RuntimeError("curl failed")


def _boto3(scratch: Path, model: Llama, _: Marks) -> Llama:
    import boto3

    boto3.client("s3").download_file(BUCKET, SAFETENSORS, str(scratch / SAFETENSORS))
    model.load_state_dict(safetensors.torch.load_file(scratch / SAFETENSORS), assign=True)
    return model


def _runai(_: Path, model: Llama, __: Marks) -> Llama:
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_file(f"{ADDRESS}/{SAFETENSORS}")
        model.load_state_dict(dict(streamer.get_tensors()), assign=True)
    return model


WAYS: dict[str, Callable[[Path, Llama, Marks], Llama | None]] = {
    "pull and thaw": _pull,
    "four ranges by curl": _curl,
    "boto3 and load_file": _boto3,
    "runai-model-streamer": _runai,
}
_IMPORTS = {"boto3 and load_file": "boto3", "runai-model-streamer": "runai_model_streamer_s3"}


def touch_memory(num_bytes: int) -> None:
    """Have a virtual machine's host give that much memory, at most half of what there is; it is free afterwards.

    A host may take free memory back within seconds, and then gives it anew a page at a time.
    """
    mmap.mmap(-1, min(num_bytes, available_bytes() // 2), flags=mmap.MAP_PRIVATE | mmap.MAP_POPULATE).close()


def attempt(way: str, folder: Path, size: str) -> dict[str, Any]:
    """Load and infer once. Imports, the module on `meta` and what boto3 reads once are there before the clock starts.

    All ways have their files in the page cache of the server, as all but the first of many nodes find them. Nor does a
    virtual machine's host have to give memory while the clock runs.
    """
    if way in _IMPORTS:
        __import__(_IMPORTS[way])
    S3Client(BUCKET).get(f"{NAME}/latest")
    model = built(SHAPES[size], "meta")
    with torch.inference_mode():
        torch.ones(8, 8) @ torch.ones(8, 8)  # what torch does at its first product
    touch_memory(_LOADS_TAKE * (folder / SAFETENSORS).stat().st_size)
    with TemporaryDirectory(dir=folder) as scratch:
        marks: Marks = {"began": time.monotonic()}
        loaded = WAYS[way](Path(scratch), model, marks)
        marks.setdefault("loaded", time.monotonic())
        logits = None if loaded is None else first_inference(loaded)
    began = marks.pop("began")
    return {"marks_ms": {name: (at - began) * 1e3 for name, at in marks.items()}, "logits": logits}


def main(what: str, folder: str, size: str) -> None:
    """Do as the command line says."""
    if what == "make":
        make(Path(folder), SHAPES[size])
    else:
        print(json.dumps(attempt(what, Path(folder), size)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
