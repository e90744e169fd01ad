"""Make functions ready, each in a process of its own: import, set up, freeze, thaw afresh, compare, record."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from faas import settings
from faas.errors import NotPrepared, TargetError
from faas.preparation import Preparation, Preparations

Progress = Callable[[str], None]

KEPT_SNAPSHOTS = 3
STDERR = 2
"""Where what user code prints goes, by number: `sys.stderr` may be no file."""

_SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


async def prepare(target: str, store: Path, *, progress: Progress, force: bool = False) -> list[Preparation]:
    """Return the preparations of all functions that `target` names, made where one is missing or stale.

    Raises:
        NotPrepared: the target cannot be loaded, or a function's `setup()` failed; the message holds why.
        TargetError: there is no such target, or the store cannot be written.
    """
    from faas.targets import Target  # the light part of it: loads no user code here

    text = Target.of(target).text
    preparations = Preparations(store)
    if not force:
        fresh = preparations.of_target(text)
        if fresh is not None:
            return fresh
    first = await _make(text, None, store, progress)
    others = [name for name in first.siblings if name != first.name]
    done = [first, *[await _make(text, name, store, progress) for name in others]]
    for preparation in done:
        preparations.write(preparation)
    return sorted(done, key=lambda p: p.name)


async def _make(target: str, name: str | None, store: Path, progress: Progress) -> Preparation:
    _writable(store)
    from snapshot.staging import scratch_folder  # local: what is fresh needs none of it

    with scratch_folder(store) as scratch:
        folder = scratch / "snapshot"
        task = {"verb": "make", "target": target, "function": name, "folder": str(folder)}
        made = await _run(task, progress)
        outcome: dict[str, Any] = {"snapshot": None, "digest": None, "reason": made["reason"]}
        if made["digest"] is not None:
            outcome = await _checked(made, {**task, "verb": "check"}, progress)
        if outcome["snapshot"] is not None:
            outcome["snapshot"] = _published(made["description"]["name"], folder, store)
    copied = ("description", "origin", "siblings", "imports", "state_bytes", "setup_s")
    preparation = msgspec.convert({key: made[key] for key in copied} | outcome, Preparation)
    frozen = "its state is frozen" if preparation.snapshot else f"instances run setup(): {preparation.reason}"
    progress(f"{preparation.name} is ready; {frozen}")
    return preparation


def _writable(store: Path) -> None:
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(f"cannot make {store}: {error.strerror}; choose another --store or FAAS_HOME") from None


def _published(name: str, folder: Path, store: Path) -> str:
    """Keep a snapshot in the store and return its folder there; of older ones, the last few stay, within the budget."""
    import snapshot  # only where one was made
    from snapshot.collect import collect

    local = snapshot.LocalStore(store)
    kept = local.publish(name, folder)
    local.prune(name, keep=KEPT_SNAPSHOTS)
    if (budget_bytes := settings.read().snapshot_cache_bytes) is not None:
        collect(local, budget_bytes)
    return str(local.folder(kept))


async def _checked(made: dict[str, Any], task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Thaw in a fresh process and compare the answers; a snapshot that is not as good as `setup()` is not used."""
    name = made["description"]["name"]
    progress(f"thawing {name} in a fresh process")
    unused = {"snapshot": None, "digest": None}
    try:
        checked = await _run({**task, "function": name}, progress)
    except NotPrepared as error:
        return {**unused, "reason": f"the state does not thaw: {error}"}
    if made["answers"] is not None and not _same(made["answers"], checked["answers"]):
        return {**unused, "reason": "the thawed state answers the examples differently"}
    kept = {"snapshot": task["folder"], "digest": made["digest"], "thaw_s": checked["thaw_s"]}
    return {**kept, "compared": made["answers"] is not None}


def _same(before: list[str], after: list[str]) -> bool:
    return len(before) == len(after) and all(
        close(msgspec.json.decode(a), msgspec.json.decode(b)) for a, b in zip(before, after, strict=True)
    )


def close(a: Any, b: Any) -> bool:
    """Tell whether two JSON values are equal, numbers to within a relative 1e-4 (or an absolute 1e-6)."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)
    return bool(a == b)


async def _run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Run one task in a process of its own and return its last report."""
    reader, writer = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # no folder of the user may stand in for one of our packages
            "-m",
            "faas.preparing",
            stdin=asyncio.subprocess.PIPE,
            stdout=STDERR,
            pass_fds=(writer,),
            env={**_SINGLE_THREADED, **os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    try:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode({**task, "report_fd": writer}))
        process.stdin.close()
        last = await _reports(reader, progress)
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if last["type"] == "failed":
        raise NotPrepared("\n".join(x for x in (last["message"], last["traceback"].rstrip()) if x))
    if last["type"] == "step":
        raise NotPrepared(
            f"the process that makes {task['target']} ready ended with status {status} while {last['text']}"
        )
    return last


async def _reports(descriptor: int, progress: Progress) -> dict[str, Any]:
    last: dict[str, Any] = {"type": "step", "text": "starting"}
    stream = asyncio.StreamReader(limit=2**26)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        async for line in stream:
            last = msgspec.json.decode(line)
            if last["type"] == "step":
                progress(last["text"])
    finally:
        transport.close()
    return last
