"""A function's image, built and pushed to a real registry: first, with nothing changed, and with its code changed."""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import pushing
from benchmarks.area import Bench
from benchmarks.processes import free_port, running, script
from benchmarks.rows import Row, at_most

_MEBI = 1 << 20
_BASE_BYTES, _PACKAGES_BYTES, _BUNDLE_BYTES = 200 * _MEBI, 60 * _MEBI, 256 << 10


async def measure(bench: Bench) -> list[Row]:
    program = _program()
    if program is None:
        print("docker-registry is not installed (scripts/setup does it where apt-get is there)", file=sys.stderr)
        return [Row("second push", None, "s")]
    folder = bench.home / "push"
    folder.mkdir()
    scale = bench.choose(1, 8)
    _write_wheel(folder / "wheels", _PACKAGES_BYTES // scale)
    (folder / "bundle").mkdir()
    _write_bundle(folder)
    async with _registry(program, folder) as host:
        _push_base(host, folder, _BASE_BYTES // scale)
        first = await _pushed(host, folder)
        unchanged, changed = [], []
        for _ in range(bench.choose(5, 2)):
            unchanged.append(await _pushed(host, folder))
            _write_bundle(folder)
            changed.append(await _pushed(host, folder))
    return _rows(first, unchanged, changed)


def _rows(first: dict[str, Any], unchanged: list[dict[str, Any]], changed: list[dict[str, Any]]) -> list[Row]:
    surplus = max(one["sent_bytes"] - one["bundle_bytes"] - one["config_bytes"] for one in changed)
    return [
        Row("first push: packages, bundle", first["push_s"], "s"),
        Row("first push: sent", first["sent_bytes"] / _MEBI, "MiB"),
        Row("push of nothing new", median(one["push_s"] for one in unchanged), "s"),
        Row("push of nothing new: blobs sent", max(one["num_sent"] for one in unchanged), "", at_most(0)),
        Row("second push, code changed", median(one["push_s"] for one in changed), "s", at_most(3)),
        Row("second push: sent", median(one["sent_bytes"] for one in changed) / _MEBI, "MiB"),
        Row("second push: sent besides bundle and configuration", surplus, "bytes", at_most(0)),
        Row("the image", changed[-1]["image_bytes"] / _MEBI, "MiB"),
    ]


async def _pushed(host: str, folder: Path) -> dict[str, Any]:
    """Push as a deployment does, in a new process."""
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels"), "PIP_CONFIG_FILE": os.devnull}
    async with script("-m", "benchmarks.pushing", host, str(folder), **variables) as process:
        assert process.stdout is not None
        output, status = await process.stdout.read(), await process.wait()
        if status != 0:
            raise RuntimeError(f"the push ended with status {status}")
    found: dict[str, Any] = json.loads(output)
    return found


def _push_base(host: str, folder: Path, num_bytes: int) -> None:
    """Push an image of about the size of a runtime image, with the documents of one."""
    from deploy.image import SCRATCH, Connection, File, LayerCache, append
    from faas.deployment import runtime_image

    files = [File("/usr/local/base", os.urandom(num_bytes))]
    base = LayerCache(folder / "base").of_files(files, created_by="base")
    append(SCRATCH, f"{host}/{pushing.BASE}", [base], changes=runtime_image.changes({}), connection=Connection())


def _write_wheel(folder: Path, num_bytes: int) -> None:
    """Write a package of that many bytes which no compression makes fewer of, as those of compiled packages."""
    folder.mkdir()
    info = "payload-1.0.dist-info"
    with zipfile.ZipFile(folder / "payload-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("payload/__init__.py", "")
        wheel.writestr("payload/data.bin", os.urandom(num_bytes))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: payload\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def _write_bundle(folder: Path) -> None:
    """Write other code."""
    (folder / "bundle" / "function.pkl").write_bytes(os.urandom(_BUNDLE_BYTES))


def _program() -> str | None:
    beside = Path(sys.executable).with_name("docker-registry")
    return str(beside) if beside.exists() else shutil.which("docker-registry")


@asynccontextmanager
async def _registry(program: str, folder: Path) -> AsyncIterator[str]:
    """Run a registry; yields its host."""
    host = f"127.0.0.1:{free_port()}"
    config = {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": host, "secret": "benchmark"},
    }
    (folder / "registry.yml").write_text(json.dumps(config))  # JSON is YAML
    command = ["serve", str(folder / "registry.yml")]
    async with running("docker-registry", command, folder / "registry.log", program=program) as server:
        await server.until_answers(f"http://{host}/v2/", within_s=30)
        yield host
