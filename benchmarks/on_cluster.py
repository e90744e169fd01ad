"""A real cluster under measurement: functions deployed by the command line, called through its ingress, gone to zero.

It is named as for `scripts/test --cluster`: `KUBECONFIG`; `FAAS_TEST_IMAGE_PREFIX`, a repository prefix that this
machine and the nodes reach, with a runtime image under its usual name or at `FAAS_BASE_IMAGE`; `FAAS_TEST_INSECURE`, a
registry that speaks plain HTTP; `FAAS_NAMESPACE`; `FAAS_INGRESS`, the URL of an ingress whose names are in no DNS.
"""

import asyncio
import json
import os
import sys
import time
import uuid
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from benchmarks.processes import ROOT

PREFIX = "FAAS_TEST_IMAGE_PREFIX"
_INSECURE = "FAAS_TEST_INSECURE"
_ZERO_WITHIN_S = 240.0
_COMMAND_WITHIN_S = 600.0
_CALL_WITHIN_S = 120.0


def lacks(*needed: str) -> bool:
    """Whether the environment names no cluster, or none with what is `needed` besides; says so to the user."""
    missing = [name for name in ("KUBECONFIG", PREFIX, *needed) if not os.environ.get(name)]
    if missing:
        print(f"skipped, there is no cluster to measure on: set {', '.join(missing)}", end=" ", file=sys.stderr)
    return bool(missing)


class CommandError(Exception):
    """A command ended with another status than 0; the message holds what it wrote."""


@dataclass(frozen=True)
class Answer:
    """One call: the seconds until its answer was read, and what its headers say."""

    total_s: float
    headers: Mapping[str, str]


@dataclass(frozen=True)
class OnCluster:
    """One function, in a folder and with a home of its own; nobody else on the cluster has its `name`."""

    folder: Path
    name: str

    async def faas(self, *words: str) -> str:
        """Run a command; return what it wrote to standard output. Raises CommandError."""
        variables = {
            **{name: value for name, value in os.environ.items() if name != "FAAS_STORE"},
            "PYTHONPATH": str(ROOT),
            "FAAS_HOME": str(self.folder / "home"),
            "FAAS_IMAGE": os.environ[PREFIX],
            "HF_HUB_OFFLINE": "1",
        }
        command = (sys.executable, "-m", "faas.cli.main", *words)
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env=variables, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        try:
            async with asyncio.timeout(_COMMAND_WITHIN_S):
                out, said = await process.communicate()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        if process.returncode != 0:
            raise CommandError(f"faas {' '.join(words)}: {said.decode(errors='replace')}")
        return out.decode()

    async def deploy(self, code: str, *words: str) -> tuple[dict[str, Any], float]:
        """Deploy `code`, in which NAME stands for the function's name; return what is told, and the seconds it took."""
        (self.folder / "app.py").write_text(code.replace("NAME", self.name))
        plain = os.environ.get(_INSECURE)
        insecure = ("--insecure", plain) if plain and "--pool" not in words else ()
        begun = time.monotonic()
        said = await self.faas("deploy", "app.py", "--json", *insecure, *words)
        took_s = time.monotonic() - begun
        (row,) = json.loads(said)
        return row, took_s

    async def until_zero(self) -> None:
        """Wait until the function has no pod. Raises TimeoutError."""
        await asyncio.to_thread(_watch_to_zero, self.name)

    async def call(self, url: str, value: Any, path: str = "/") -> Answer:
        """Send one call over a connection of its own. Raises aiohttp.ClientError unless it is answered with 200."""
        ingress = os.environ.get("FAAS_INGRESS") or url
        headers = {"Host": urlsplit(url).netloc, "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=_CALL_WITHIN_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            begun = time.monotonic()
            async with session.post(
                f"{ingress.rstrip('/')}{path}", data=json.dumps(value), headers=headers, raise_for_status=True
            ) as answer:
                await answer.read()
            return Answer(time.monotonic() - begun, {k.lower(): v for k, v in answer.headers.items()})


@asynccontextmanager
async def on_cluster(home: Path, what: str, *, kind: str = "function") -> AsyncIterator[OnCluster]:
    """Yield a function, or a pool, that is deleted at the end, if it is there; `what` becomes part of its name."""
    folder = home / what
    folder.mkdir()
    made = OnCluster(folder, f"bench-{what}-{uuid.uuid4().hex[:5]}")
    try:
        yield made
    finally:
        words = ("pool", "delete", made.name) if kind == "pool" else ("delete", made.name, "--cluster")
        with suppress(CommandError):
            await made.faas(*words, "--yes")


def _watch_to_zero(name: str) -> None:
    from deploy.knative.connection import connect  # the Kubernetes client, for this alone
    from deploy.knative.resources import PODS, SERVICE_LABEL
    from deploy.knative.rest import Rest
    from deploy.knative.watching import Changed, Watch

    rest = Rest(connect(namespace=os.environ.get("FAAS_NAMESPACE")))
    watch = Watch(rest, PODS.path(rest.connection.namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})
    pods: set[str] = set()
    try:
        for event in watch.events(time.monotonic() + _ZERO_WITHIN_S):
            if isinstance(event, Changed):
                found = event.object["metadata"]["name"]
                pods = pods - {found} if event.kind == "DELETED" else pods | {found}
            else:
                pods = {pod["metadata"]["name"] for pod in event.items}
            if not pods:
                return
    finally:
        rest.close()
    raise TimeoutError(f"after {_ZERO_WITHIN_S:g} s {name} still has {sorted(pods)}")
