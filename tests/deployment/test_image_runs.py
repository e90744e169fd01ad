"""A function's image with this framework in it runs, as a pod would run it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import httpx
import pytest

from deploy import wheels
from deploy.image import SCRATCH, Connection, File, Keychain, LayerCache, append, inspect
from deploy.image import layer as layers
from faas import environments
from faas.deployment import own_wheel, runtime_image
from faas.deployment.runtime_image import PACKAGES
from tests import registry_server
from tests.deploy.image import containers

APP = """
from faas import inference_function


@inference_function
class Double:
    def setup(self):
        self.factor = 2

    def predict(self, number: int) -> int:
        return self.factor * number
"""

CONNECTION = Connection(keychain=Keychain({}))


def packages(folder: Path) -> list[File]:
    """This framework, unpacked from its wheel, and what it depends on, as it is installed here, with bytecode."""
    site = folder / "site"
    own = own_wheel.write(folder)
    shutil.unpack_archive(own, site, "zip")
    for distribution in environments.core().values():
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file() and "__pycache__" not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, site / file)
    (site / "bin").mkdir()
    (site / "bin" / "faas").write_text("#!/usr/bin/env python3\nfrom faas.cli.entry import main\nmain()\n")
    (site / "bin" / "faas").chmod(0o755)
    wheels.compile_all(site, PACKAGES)
    binaries = [Path("/usr/bin/env"), *site.rglob("*.so")]
    return [
        *layers.of_folder(site, PACKAGES),
        File("/usr/bin/env", Path("/usr/bin/env"), 0o755),
        *containers.libraries_of(binaries, but_in=site),
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@registry_server.needed
@pytest.mark.skipif(not containers.can_run(), reason="needs root, to have a root file system of its own")
def test_a_functions_image_runs_answers_and_stops(tmp_path: Path) -> None:
    """Runtime image and function's layers are made as `faas image runtime` and a deployment make them, but for where
    packages come from: here they are copied from this environment, as there may be no index.

    What runs is what was pushed to a real registry: unpacked by hand, its own command, user and variables, its root
    read-only but for /tmp, in namespaces of its own for mounts and processes. The network is this machine's, and no
    container runtime takes part.
    """
    (tmp_path / "app.py").write_text(APP)
    subprocess.run(
        [sys.executable, "-m", "faas.cli.main", "bundle", str(tmp_path / "app.py"), "-o", str(tmp_path / "bundle")],
        check=True,
    )
    cache = LayerCache(tmp_path / "layers")
    unique = {file.path: file for file in (*containers.python_files(), *packages(tmp_path))}  # some libraries are twice
    with registry_server.registry(tmp_path) as registry:
        base = append(
            SCRATCH,
            f"{registry.host}/runtime:1",
            [cache.of_files(unique.values(), created_by="runtime")],
            changes=runtime_image.changes({"faas": metadata.version("faas")}),
            connection=CONNECTION,
        )
        runtime = inspect(base.image, connection=CONNECTION)[1]
        made = runtime_image.layers_of_function(tmp_path / "bundle", wheels.Lock(()), runtime, cache=tmp_path / "cache")
        pushed = append(base.image, f"{registry.host}/double:1", made, connection=CONNECTION)
        image = containers.unpack(pushed.image, tmp_path / "root", CONNECTION)
    port = free_port()
    arguments = [*image.settings["Cmd"], "--port", str(port)]
    with containers.started(image, tmp_path / "root", arguments, read_only=True) as process:
        assert answer_of(f"http://127.0.0.1:{port}/", 21) == 42
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        assert process.wait(60) == 0


def answer_of(url: str, body: object) -> object:
    """What a server answers once it is ready; no event tells an outsider when it listens."""
    deadline = time.monotonic() + 120
    while True:
        try:
            answer = httpx.post(url, json=body, trust_env=False, timeout=60)
        except httpx.ConnectError:
            answer = None
        if answer is not None and answer.status_code != 503:
            return answer.json()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
