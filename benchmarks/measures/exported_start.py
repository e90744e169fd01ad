"""Process start to the first HTTP answer without a zygote: exported to ONNX, thawed as torch, and the plain way."""

import asyncio
import logging
import socket
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.area import Bench
from benchmarks.measures.cold_start import SENTENCE, plain_start
from benchmarks.rows import Row, at_least
from faas import instance_messages, settings
from faas.platform.forking import revision_of
from faas.preparation import Preparation
from faas.prepare import prepare
from warmpool import cpu
from warmpool.environment import Environment
from warmpool.launch import exec_worker
from warmpool.process import Worker
from warmpool.protocol import Request

_EXPORTED_AT_LEAST = 12.0
_TORCH_ALONE_AT_LEAST = 2.5
_WITHIN_S = 120.0
_EXPORTED, _THAWED, _TORCH_ALONE = "exported to ONNX", "thawed, transformers' class", "thawed, torch alone"


@dataclass(frozen=True)
class Started:
    """One start: milliseconds to the first answer, and what the instance tells of them; what memory was its own."""

    total_ms: float
    phases_ms: dict[str, float]
    private_bytes: int


@dataclass(frozen=True)
class Starts:
    """Starts that were measured in turns."""

    plain_ms: list[float] = field(default_factory=list)
    of_form: dict[str, list[Started]] = field(default_factory=dict)


async def measure(bench: Bench) -> list[Row]:
    forms = {
        _EXPORTED: await _prepared("handlers.embed", bench.home / "exported", export="onnx"),
        _THAWED: await _prepared("handlers.embed", bench.home / "thawed", export="none"),
        _TORCH_ALONE: await _prepared("benchmarks.functions.torch_alone", bench.home / "thawed", export="none"),
    }
    for preparation in forms.values():
        await exec_start(preparation, bench.home)
    found = Starts()
    for _ in range(bench.choose(7, 2)):
        found.plain_ms.append((await plain_start()).total_ms)
        for form, preparation in forms.items():
            found.of_form.setdefault(form, []).append(await exec_start(preparation, bench.home))
    return rows(found)


async def _prepared(target: str, store: Path, export: str) -> Preparation:
    [preparation] = await prepare(target, store, progress=lambda step: None, export=export)
    if preparation.snapshot is None or (export == "onnx" and (preparation.export != "onnx" or preparation.late)):
        raise RuntimeError(f"{target} was not made ready as asked: {preparation}")
    return preparation


async def exec_start(preparation: Preparation, home: Path) -> Started:
    """Start an instance as a new interpreter, send a request at once, and return when its answer was there.

    It is ordered as the platform orders one that a call waits for: the call does what the first example is for, and the
    plain way begins with no example either.
    """
    logging.getLogger("warmpool").setLevel(logging.ERROR)  # it warns of every start without a zygote
    address = tempfile.mktemp(prefix="s", dir=home)
    ours, theirs = socket.socketpair()
    with closing(socket.socket(socket.AF_UNIX)) as listen, theirs:
        listen.bind(address)
        listen.listen()
        began_at = time.monotonic()
        order = instance_messages.Order(
            revision=revision_of(preparation), instance_id="exec", ordered_at=began_at, num_spared=1
        )
        fds = {"listen": listen.fileno(), "control": theirs.fileno()}
        request = Request(
            entry="faas.instance:main",
            payload=msgspec.json.encode(order),
            fds=fds,
            env={settings.HOME: str(home), "PYTHONDONTWRITEBYTECODE": None},  # what is installed is compiled
            num_workers=cpu.read_threads_per_worker(cpu.find_quota_files(), 1),
        )
        worker = await exec_worker(Environment(modules=()), request, "it is measured")
    reader, control = await asyncio.open_connection(sock=ours)
    try:
        async with asyncio.timeout(_WITHIN_S):
            ready = instance_messages.EVENTS.decode(await reader.readline())
            await _ask(address)
            total_ms = (time.monotonic() - began_at) * 1e3
    finally:
        control.close()
    private_bytes = _private_bytes(worker)
    if await worker.wait() != 0 or not isinstance(ready, instance_messages.Ready):
        raise RuntimeError(f"an instance of {preparation.name} ended with {worker.status}: {ready}")
    return Started(total_ms, {name: 1e3 * duration_s for name, duration_s in ready.phases.items()}, private_bytes)


async def _ask(address: str) -> None:
    """Send one sentence and wait for the answer; a request that came before the instance is ready would be refused."""
    reader, writer = await asyncio.open_unix_connection(address)
    body = msgspec.json.encode(SENTENCE)
    head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    status = await reader.readline()
    writer.close()
    if b" 200 " not in status:
        raise RuntimeError(f"an instance answered {status.decode().strip()}")


def _private_bytes(worker: Worker) -> int:
    rollup = Path(f"/proc/{worker.pid}/smaps_rollup").read_text()
    [line] = [line for line in rollup.splitlines() if line.startswith("Private_Dirty:")]
    return int(line.split()[1]) * 1024


def rows(found: Starts) -> list[Row]:
    """Return the medians of each way, and the forms' bars against the plain one."""
    plain_ms = median(found.plain_ms)
    found_rows = [Row("plain AutoModel start to the first answer, p50", plain_ms, "ms")]
    bars = {_EXPORTED: at_least(_EXPORTED_AT_LEAST), _TORCH_ALONE: at_least(_TORCH_ALONE_AT_LEAST)}
    for form, starts in found.of_form.items():
        total_ms = median(start.total_ms for start in starts)
        found_rows += [
            Row(f"{form}: start to the first HTTP answer, p50", total_ms, "ms"),
            *(Row(f"{form}: {name}", median(s.phases_ms[name] for s in starts), "ms") for name in starts[0].phases_ms),
            Row(f"{form}: memory of its own", median(start.private_bytes for start in starts) / 2**20, "MiB"),
            Row(f"plain start over {form}", plain_ms / total_ms, "times", bars.get(form)),
        ]
    return found_rows
