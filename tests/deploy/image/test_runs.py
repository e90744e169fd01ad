"""The image runs: pulled from a real registry, unpacked in order, its own command started in that root, and called."""

import io
import re
import tarfile
from pathlib import Path

import httpx
import pytest

from deploy.image import SCRATCH, Changes, Connection, File, Keychain, LayerCache, append
from deploy.image import layer as layers
from tests import registry_server
from tests.deploy.image import containers

pytestmark = [
    registry_server.needed,
    pytest.mark.skipif(not containers.can_run(), reason="needs root, to have a root file system of its own"),
]

CONNECTION = Connection(keychain=Keychain({}))
SERVER = b"""
import http.server, json, os, sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = {
            "old": os.path.exists("/app/old.py"),
            "kept": os.path.exists("/app/kept.py"),
            "uid": os.getuid(),
            "pid": os.getpid(),
            "folder": os.getcwd(),
            "greeting": os.environ["GREETING"],
            "variables": sorted(os.environ),
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.slow
def test_an_image_made_of_layers_runs_and_answers(tmp_path: Path) -> None:
    """Shows that what is pushed is an image: layers that unpack in order over each other (a file removed by a whiteout
    among them), with variables, folder, user and command as they were set, started as process 1 of a root of its own.

    The root holds this machine's Python; this framework is not in it, and no container runtime takes part.
    """
    with tarfile.open(tmp_path / "whiteout.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("app/.wh.old.py"), io.BytesIO())
    cache = LayerCache(tmp_path / "layers")
    parts = [
        cache.of_files(containers.python_files("http.server", "json", "encodings.idna"), created_by="python"),
        cache.of_files([File("/app/old.py", b""), File("/app/kept.py", b"")], created_by="files"),
        layers.of_tar(tmp_path / "whiteout.tar", tmp_path / "whiteout.tar.gz", created_by="whiteout"),
        cache.of_files([File("/app/server.py", SERVER)], created_by="server"),
    ]
    changes = Changes(
        entrypoint=("python3", "-S"),
        command=("server.py",),
        env={"GREETING": "hello"},
        user="65532:65532",
        workdir="/app",
    )
    with registry_server.registry(tmp_path) as registry:
        pushed = append(SCRATCH, f"{registry.host}/app:v1", parts, changes=changes, connection=CONNECTION)
        image = containers.unpack(pushed.image, tmp_path / "root", CONNECTION)
    with containers.started(image, tmp_path / "root") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"port (\d+)\n", line)
        assert found is not None, line + process.stdout.read()
        answer = httpx.get(f"http://127.0.0.1:{found[1]}/", trust_env=False).json()
    assert answer == {
        "old": False,
        "kept": True,
        "uid": 65532,
        "pid": 1,
        "folder": "/app",
        "greeting": "hello",
        "variables": ["GREETING", "PATH"],
    }
