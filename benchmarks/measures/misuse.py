"""Callers who behave badly, and what it is to the others: a bad item, callers who leave, a rush, a huge body."""

import asyncio
import json
from typing import Any

import aiohttp

import loadgen
from benchmarks.area import Bench
from benchmarks.functions.misused import BATCH, QUEUE
from benchmarks.processes import script
from benchmarks.rows import Row, at_least, at_most
from benchmarks.rush import connected
from benchmarks.served import Served, faas_serve

_NUM_LEAVING = 20
_NUM_RUSHING = 400
_BLOCK_S = 3.0
_AT_ONCE_MS = 1000.0
_LARGE_BYTES = 100_000_000
_NUM_LARGE = 5
_MOST_MOVED_MS = 20.0
_MOST_READ_BYTES = 8 << 20
"""What the sockets of both sides, and the server before it has looked, may hold of a body."""

_OTHERS_PER_S = 100.0
_LOOK_EVERY_S = 0.01


async def measure(bench: Bench) -> list[Row]:
    async with faas_serve("benchmarks.functions.misused:Blocked", bench.home, {}) as blocked:
        rows = [await _bad_item(blocked), await _left(blocked), *await _rush(blocked)]
    for form, of in (("json", "json"), ("raw", "bytes")):
        async with (
            faas_serve(f"benchmarks.functions.misused:any_{of}", bench.home, "x") as any_size,
            faas_serve(f"benchmarks.functions.misused:small_{of}", bench.home, "x") as small,
        ):
            rows += await _large(any_size, form, bench.choose(_NUM_LARGE, 2))
            if form == "json":
                rows += await _large(any_size, "numbers", bench.choose(_NUM_LARGE, 2))
            rows += await _too_large(small, form)
    return rows


async def _bad_item(served: Served) -> Row:
    """Have a batch of items of which one is bad."""
    async with _session() as session:
        blocking = await _block(session, served, 0.5)
        items = [{"bad": True}, *[{}] * (BATCH - 1)]
        statuses = [status for status, _ in await asyncio.gather(*(_post(session, served, item) for item in items))]
        await blocking
    return Row(
        f"misuse: right answers of {BATCH - 1} beside a bad item", statuses[1:].count(200), "", at_least(BATCH - 1)
    )


async def _left(served: Served) -> Row:
    """Have callers leave while they wait."""
    async with _session() as session:
        _, before = await _post(session, served, {})
        blocking = await _block(session, served, _BLOCK_S / 2)
        leaving = [asyncio.create_task(_post(session, served, {"counted": 1})) for _ in range(_NUM_LEAVING)]
        await _until_queued(served, _NUM_LEAVING)
        for caller in leaving:
            caller.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        await blocking
        _, after = await _post(session, served, {})
    return Row(f"misuse: computed of {_NUM_LEAVING} whose callers had left", int(after) - int(before), "", at_most(0))


async def _rush(served: Served) -> list[Row]:
    """Have many callers at once while the model is blocked. That they connect before is not counted."""
    async with _session() as session, connected(served, {}, _NUM_RUSHING) as rush:
        blocking = await _block(session, served, _BLOCK_S)
        answers = await rush.go()
        await blocking
    refused_ms = [ms for status, ms in answers if status in (429, 503)]
    answered = sum(status == 200 for status, _ in answers)
    num, most = _NUM_RUSHING - QUEUE, f"misuse: {_NUM_RUSHING} at once, a queue of {QUEUE}:"
    return [
        Row(f"{most} refused, least", len(refused_ms), "", at_least(num)),
        Row(f"{most} refused, most", len(refused_ms), "", at_most(num)),
        Row(f"{most} answered", answered, "", at_least(QUEUE)),
        Row(f"{most} longest until a refusal", max(refused_ms, default=0.0), "ms", at_most(_AT_ONCE_MS)),
    ]


async def _large(served: Served, form: str, num_times: int) -> list[Row]:
    """Have a caller send large bodies, one after another, and others small ones."""
    what = f"misuse: bodies of 100 MB, {form}"
    arguments = [served.url, form, str(_LARGE_BYTES), str(num_times)]
    others = asyncio.Event()
    before = await _others(served, form, duration_s=4.0)
    async with script("-m", "benchmarks.bulk", *arguments) as bulk:
        assert bulk.stdout is not None
        running = asyncio.create_task(_others(served, form, stop=others))
        answers = [json.loads(line) async for line in bulk.stdout]
        others.set()
        during = await running
    assert before.latency is not None
    assert during.latency is not None
    failed = num_times - sum(one["status"] == 200 for one in answers)
    failed += during.num_offered - during.outcomes["ok"] - during.outcomes["unfinished"]
    return [
        Row(f"{what}: seconds each", sum(one["seconds"] for one in answers) / num_times, "s"),
        Row(f"{what}: p99 of others before", before.latency.p99_ms, "ms"),
        Row(f"{what}: p99 of others meanwhile", during.latency.p99_ms, "ms"),
        Row(f"{what}: longest of others meanwhile", during.latency.max_ms, "ms"),
        Row(
            f"{what}: p99 of others moves by",
            during.latency.p99_ms - before.latency.p99_ms,
            "ms",
            at_most(_MOST_MOVED_MS),
        ),
        Row(f"{what}: requests that failed", failed, "", at_most(0)),
    ]


async def _too_large(served: Served, form: str) -> list[Row]:
    """Have a caller send a body that is over the limit."""
    async with script("-m", "benchmarks.bulk", served.url, form, str(_LARGE_BYTES)) as bulk:
        assert bulk.stdout is not None
        answers = json.loads(await bulk.stdout.readline())
    what = f"misuse: a body of 100 MB over the limit, {form}"
    return [
        Row(f"{what}: answered with 413", float(answers["status"] == 413), "", at_least(1)),
        Row(f"{what}: sent before the answer", answers["sent_bytes"], "bytes", at_most(_MOST_READ_BYTES)),
    ]


async def _others(
    served: Served, form: str, *, duration_s: float | None = None, stop: asyncio.Event | None = None
) -> loadgen.Report:
    small = loadgen.Workload.json(served.url, ["small"])
    if form == "raw":
        small = loadgen.Workload(
            url=served.url, bodies=(b"small",), headers={"Content-Type": "application/octet-stream"}
        )
    load = loadgen.OpenLoop(rate_per_s=_OTHERS_PER_S)
    return await loadgen.run(load, small, duration_s=duration_s or 120.0, stop=stop)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


async def _post(session: aiohttp.ClientSession, served: Served, item: Any) -> tuple[int, str]:
    async with session.post(served.url, json=item) as response:
        return response.status, await response.text()


async def _block(session: aiohttp.ClientSession, served: Served, seconds: float) -> asyncio.Task[tuple[int, str]]:
    """Have the model sleep; it does when this returns."""
    task = asyncio.create_task(_post(session, served, {"sleep_s": seconds}))
    while not await served.metric("faas_inflight"):  # noqa: ASYNC110 (nothing tells an outsider of it)
        await asyncio.sleep(_LOOK_EVERY_S)
    await _until_queued(served, 0)
    return task


async def _until_queued(served: Served, num: int) -> None:
    while await served.metric("faas_queue_depth") != num:  # noqa: ASYNC110 (as above)
        await asyncio.sleep(_LOOK_EVERY_S)
