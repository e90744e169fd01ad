"""A pool as its pods run it: the command of its manifest, a root that cannot be written, a user who is nobody, S3."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from deploy.knative.resources import Document
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.knative.kubeconfig import write
from tests.e2e.conftest import Box, bring_up, environ, take_down
from tests.e2e.test_platform import eventually
from tests.e2e.test_pool import READ_ONLY, can_be_read_only
from tests.s3_server import rclone

USER = "65532"
AS_USER = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
# Where Python lies in a folder of root's alone, that folder has but Python in it inside of the namespace.
OPENED = """
    if [ -n "$1" ]; then
        mkdir "$3/python" && mount --bind "$2" "$3/python" && mount -t tmpfs -o mode=755 none "$1" &&
        mkdir -p "$2" && mount --move "$3/python" "$2" && rmdir "$3/python" || exit 1
    fi
    shift 3 && exec "$@"
"""
APP = """
    import os
    from faas import Scaling, inference_function

    @inference_function(scaling=Scaling(scaledown_window_s=600))
    class Adds:
        def setup(self) -> None:
            self.step = STEP
        def predict(self, x: int) -> list:
            return [x + self.step, os.getuid(), "FAAS_TOKEN" in os.environ]
"""


@dataclass
class Team:
    """Who deploys: the command line, on a machine of its own."""

    home: Path
    env: Mapping[str, str]

    def faas(self, *words: str) -> str:
        command = [sys.executable, "-P", "-m", "faas.cli.main", *words]
        done = subprocess.run(
            command, env={**environ(self.home), **self.env}, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, step: int) -> str:
        path = self.home.parent / "code" / "app.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(APP).replace("STEP", str(step)))
        return str(path)


@dataclass
class Traffic:
    """Calls one after another, from a thread, until the end of the block."""

    url: str
    seen: list[tuple[int, object]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60.0) as client:
            while not self.ended.wait(0.02):
                answer = client.post("/f/adds/", json=1)
                self.seen.append((answer.status_code, answer.json()[0] if answer.status_code == 200 else answer.text))

    @contextmanager
    def flowing(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self.ended.set()
            thread.join()


def pod(folder: Path, service: Document, env: Mapping[str, str]) -> Box:
    """Start what the service says, as the kubelet would have it: its command, its variables, its restrictions."""
    (container,) = service["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["faas"]
    assert container["args"][0] == "up"
    home, scratch = folder / "home", folder / "scratch"
    for path in (folder, home, scratch):
        path.mkdir()
        os.chown(path, int(USER), int(USER))
    said = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    restricted = [*opened(scratch), *READ_ONLY, str(home), str(scratch), *AS_USER]
    return bring_up(
        home,
        *container["args"][1:],
        before=restricted,
        env={**said, **env, "FAAS_HOME": str(home), "TMPDIR": str(scratch), "HOME": str(scratch)},
    )


def opened(scratch: Path) -> list[str]:
    """What a command is an argument of that is to run where other users may read Python."""
    ways = [path for path in reversed(Path(sys.base_prefix).parents) if not path.stat().st_mode & 0o001]
    closed = str(ways[0]) if ways else ""
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        OPENED,
        "sh",
        closed,
        sys.base_prefix,
        str(scratch),
    ]


def can_be_somebody_else(folder: Path) -> bool:
    """Whether a user who is nobody may then read what the tests are run from."""
    # By way of a shell: the rights that root had are not gone before a program of the user's starts another.
    tried = [*opened(folder), *AS_USER, "sh", "-c", '"$0" -c "import faas"', sys.executable]
    return subprocess.run(tried, cwd=folder, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users may reach: pytest's are its user's alone."""
    with tempfile.TemporaryDirectory(prefix="faas-pods-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_functions_of_a_pool_come_change_and_go_while_they_are_called(tmp_path: Path, shared: Path) -> None:
    if shutil.which("setpriv") is None or os.getuid() != 0 or not can_be_read_only(tmp_path):
        pytest.skip("no read-only root can be made here")
    if not can_be_somebody_else(shared):
        pytest.skip("another user may not read this checkout")
    pods = []
    with rclone(tmp_path, "bucket") as s3, ApiServer() as api:
        team = Team(tmp_path / "team", {**s3.environment(), "KUBECONFIG": write(tmp_path, api.url)})
        team.faas("pool", "create", "gpu-a", "--store", "s3://bucket/prod", "--image", "registry.test/runtime:1")
        service = api.do(lambda state: state.store.get("services", "default", "gpu-a"))
        secret = api.do(lambda state: state.store.get("secrets", "default", "gpu-a-token"))
        token = base64.b64decode(secret["data"]["FAAS_TOKEN"]).decode()
        try:
            for name in ("first", "second"):  # one after the other: what comes up is ended, also where the next fails
                made = pod(shared / name, service, {**s3.environment(), "FAAS_TOKEN": token})
                pods.append(made)
            team = Team(team.home, {**team.env, "FAAS_INGRESS": pods[0].url})
            come_change_and_go(team, pods)
        finally:
            for box in pods:
                if box.process.poll() is None:
                    take_down(box)


def come_change_and_go(team: Team, pods: list[Box]) -> None:
    (deployed,) = json.loads(team.faas("deploy", "--pool", "gpu-a", team.write(1), "--json"))
    assert (deployed["path"], deployed["revision"]) == ("/f/adds/", deployed["version"])
    assert deployed["snapshot"].startswith("s3://bucket/prod/adds@"), "it is not set up in the pod"
    assert (pods[0].home / "snapshots" / "adds" / "latest").is_dir(), "nobody has to wait for it"
    first, second = [box.call("adds", 1) for box in pods]  # one has not heard of it yet, or only just
    assert (first.status_code, second.status_code) == (200, 200), (first.text, second.text)
    assert first.json() == second.json() == [2, int(USER), False]

    traffic = [Traffic(box.url) for box in pods]
    with traffic[0].flowing(), traffic[1].flowing():
        eventually(lambda: min(len(one.seen) for one in traffic) > 20)
        (changed,) = json.loads(team.faas("deploy", "--pool", "gpu-a", team.write(10), "--json"))
        assert changed["revision"] != deployed["revision"]
        eventually(lambda: all(one.seen[-1] == (200, 11) for one in traffic), within_s=60)
        (again,) = json.loads(team.faas("deploy", "--pool", "gpu-a", team.write(10), "--json"))
        assert (again["revision"], again["sent_bytes"]) == (changed["revision"], 0)
    for one in traffic:
        assert {status for status, _ in one.seen} == {200}, [seen for seen in one.seen if seen[0] != 200][:3]
        values = [value for _, value in one.seen]
        assert values == sorted(values, key=lambda value: (value == 11, value)), (
            "the old and then the new, not in turns"
        )

    pods[0].run("scale", "adds", "0")
    assert pods[0].call("adds", 1).json()[0] == 11, "it wakes in the pod"
    team.faas("delete", "adds", "--pool", "gpu-a", "--yes")
    assert pods[0].call("adds", 1).status_code == 404
    eventually(lambda: pods[1].call("adds", 1).status_code == 404, within_s=60)
