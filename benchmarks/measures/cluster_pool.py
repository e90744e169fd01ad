"""MiniLM from zero in a pool on a real cluster: it wakes inside a pod that runs already."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from statistics import median
from urllib.parse import urlsplit

from benchmarks.area import Bench
from benchmarks.measures.cluster_starts import CODE, SENTENCE
from benchmarks.on_cluster import Answer, CommandError, OnCluster, lacks, on_cluster
from benchmarks.rows import Row, at_most

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_SIZE = ("--cpu", "1", "--memory", "3Gi", "--min-instances", "1", "--max-instances", "1")
_FUNCTION = "embed"


async def measure(bench: Bench) -> list[Row]:
    if lacks("FAAS_STORE", "FAAS_BASE_IMAGE"):
        return []
    async with on_cluster(bench.home, "pool", kind="pool") as pool, _secrets(pool) as token:
        places = ("--store", os.environ["FAAS_STORE"], "--secret", _bucket(pool))
        said = await pool.faas("pool", "create", pool.name, *_SIZE, *places, "--json")
        url = json.loads(said)[0]["url"]
        code = CODE.replace("NAME", _FUNCTION).replace("FORM", "")
        await pool.deploy(code, "--pool", pool.name)
        wakes = []
        for _ in range(bench.choose(20, 5) + 1):
            await asyncio.to_thread(_to_zero, os.environ.get("FAAS_INGRESS") or url, urlsplit(url).netloc, token)
            wakes.append(await pool.call(url, SENTENCE, f"/f/{_FUNCTION}/"))
        warm = [await pool.call(url, SENTENCE, f"/f/{_FUNCTION}/") for _ in range(len(wakes))]
    return _rows(wakes[1:], warm)


def _rows(wakes: list[Answer], warm: list[Answer]) -> list[Row]:
    if any(wake.headers["x-cold-start"] != "1" for wake in wakes):
        raise RuntimeError("a call was answered by an instance that was there already")
    woken_s = sorted(wake.total_s for wake in wakes)
    return [
        Row("in a pool: from zero to the answer, p50", median(woken_s), "s", at_most(0.15)),
        Row("in a pool: from zero to the answer, the slowest", woken_s[-1], "s"),
        Row("in a pool: a call while it is warm, p50", median(call.total_s for call in warm), "s"),
    ]


@asynccontextmanager
async def _secrets(pool: OnCluster) -> AsyncIterator[str]:
    """Make what reads the bucket, and a token that is known here, for as long as the context lasts; yield the token."""
    token, made = secrets.token_urlsafe(32), [_bucket(pool), f"{pool.name}-token"]
    keys = [f"{name}={os.environ[name]}" for name in _KEYS if name in os.environ]
    try:
        await pool.faas("secret", "create", made[0], *(keys or ["FAAS_NOTHING=1"]))
        await pool.faas("secret", "create", made[1], f"FAAS_TOKEN={token}")
        yield token
    finally:
        for name in made:
            with suppress(CommandError):
                await pool.faas("secret", "delete", name, "--yes")


def _bucket(pool: OnCluster) -> str:
    return f"{pool.name}-bucket"


def _to_zero(url: str, host: str, token: str) -> None:
    """Have the pool's one pod end the function's instance; it has gone when this returns."""
    from faas.cli.control import Control

    Control.at(url, token, host=host).post(f"/functions/{_FUNCTION}/scale", {"instances": 0}, timeout_s=60.0)
