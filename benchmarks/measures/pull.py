"""The same module from S3 on loopback, to usable: pulled and thawed, and by everybody else."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.area import Bench
from benchmarks.processes import Server, free_port, running, script
from benchmarks.rows import Row, at_least, at_most
from benchmarks.trials import bring_into_cache, same_answers, size_of, to_and_fro

# The file or folder that the server reads for each, and the module that it needs.
_WAYS = {
    "pull and thaw": ("snapshot", None),
    "four ranges by curl": ("model.safetensors", None),
    "boto3 and load_file": ("model.safetensors", None),
    "runai-model-streamer": ("model.safetensors", "runai_model_streamer_s3"),
}
_KEY, _SECRET = "benchmark-key", "benchmark-secret"
_LOOK_EVERY_S = 0.05  # no event tells an outsider that a server has become ready
_START_WITHIN_S = 30.0


async def measure(bench: Bench) -> list[Row]:
    size = size_of(bench)
    folder = bench.home / "pull"
    folder.mkdir()
    async with script("-m", "benchmarks.pulling", "make", str(folder), size) as process:
        if await process.wait() != 0:
            raise RuntimeError(f"making the bucket ended with status {process.returncode}")
    os.sync()  # writing it would be in the way
    ways = [way for way, (_, needs) in _WAYS.items() if needs is None or find_spec(needs)]
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    async with _served(folder / "s3", bench.home / "rclone.log") as variables:
        for way in to_and_fro(ways, bench.choose(3, 2)):
            # One file is read three times a round and the other once, which a kernel may page out meanwhile.
            await asyncio.to_thread(bring_into_cache, folder / _WAYS[way][0])
            found[way].append(await _trial(way, folder, size, variables))
    same_answers([one["logits"] for trials in found.values() for one in trials if one["logits"] is not None])
    return _rows(found)


@asynccontextmanager
async def _served(root: Path, log: Path) -> AsyncIterator[dict[str, str]]:
    """Serve the buckets in `root`; yields the variables that a client needs."""
    program = Path(sys.executable).with_name("rclone")
    rclone = str(program if program.exists() else shutil.which("rclone") or "rclone")
    port = free_port()
    command = ["serve", "s3", str(root), "--addr", f"127.0.0.1:{port}", "--etag-hash", ""]
    command += ["--auth-key", f"{_KEY},{_SECRET}", "--config", str(log.with_name("no-rclone.conf"))]
    async with running("rclone", command, log, program=rclone) as server:
        await _until_listens(server)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
            "OMP_NUM_THREADS": "1",
        }


async def _until_listens(server: Server) -> None:
    async with asyncio.timeout(_START_WITHIN_S):
        while b"Starting s3 server" not in server.log.read_bytes():
            if server.process.returncode is not None:
                raise RuntimeError(f"rclone ended with status {server.process.returncode}: {server.tail()}")
            await asyncio.sleep(_LOOK_EVERY_S)


async def _trial(way: str, folder: Path, size: str, variables: dict[str, str]) -> dict[str, Any]:
    async with script("-m", "benchmarks.pulling", way, str(folder), size, **variables) as process:
        assert process.stdout is not None
        lines = (await process.stdout.read()).splitlines()
        if await process.wait() != 0 or not lines:
            raise RuntimeError(f"loading by {way} ended with status {process.returncode}")
    trial: dict[str, Any] = json.loads(lines[-1])
    return trial


def _rows(found: dict[str, list[dict[str, Any]]]) -> list[Row]:
    usable = {way: median(one["marks_ms"]["loaded"] for one in trials) for way, trials in found.items()}
    ours = [one["marks_ms"] for one in found["pull and thaw"]]
    our_ms = usable["pull and thaw"]
    rows = [Row(f"S3: {way}, to usable, p50", ms, "ms") for way, ms in usable.items()]
    rows += [
        Row("S3: the graph rebuilt, p50", median(marks["rebuilt"] for marks in ours), "ms"),
        Row("S3: durable in the node's store, p50", median(marks["stored"] for marks in ours), "ms"),
        Row(
            "S3: first tensor usable, part of the whole time",
            median(marks["first"] / marks["loaded"] for marks in ours),
            "",
            at_most(0.10),
        ),
        Row("S3: pull over four ranges by curl", our_ms / usable["four ranges by curl"], "times", at_most(1.15)),
        Row("S3: boto3 and load_file over pull", usable["boto3 and load_file"] / our_ms, "times", at_least(1.5)),
    ]
    if streamer := usable.get("runai-model-streamer"):
        rows.append(Row("S3: runai-model-streamer over pull", streamer / our_ms, "times", at_least(2.0)))
    else:
        rows.append(Row("S3: left out, since it is not installed: runai-model-streamer", 1))
    return rows
