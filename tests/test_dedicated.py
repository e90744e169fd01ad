"""`faas serve --bundle`, as a container runs it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.bundle.conftest import run
from tests.s3_server import rclone

STATEFUL = """
from __future__ import annotations
import os, sys
from dataclasses import dataclass
from faas import Calls, inference_function
from aid.kinds import Kind

@dataclass
class Model:
    kind: Kind
    pid: int

@inference_function(calls=Calls(grace_period_s=10))
class embed:
    def setup(self):
        print("setting up", file=sys.stderr, flush=True)
        self.model = Model(Kind("a"), os.getpid())
    def predict(self, x: int) -> list:
        assert type(self.model) is Model and type(self.model.kind) is Kind
        return [x, self.model.kind.name, self.model.pid == os.getpid()]
"""
SLOW = """
import sys, time
from pathlib import Path
from faas import inference_function
time.sleep(1.0)

@inference_function
class slow:
    def setup(self): time.sleep(1.0)
    def predict(self, x: int) -> int: return x
"""
COMMAND = [sys.executable, "-P", "-m", "faas.cli.main"]


@dataclass
class Container:
    """A process that serves, and what it has said on standard error."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def until_ready(self) -> httpx.Response:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                answer = self.get("/readyz")
                if answer.status_code == 200:
                    return answer
        raise AssertionError(f"not ready: {self.log.read_text()}")

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, trust_env=False, timeout=30)

    def call(self, value: object) -> httpx.Response:
        return httpx.post(self.url, json=value, trust_env=False, timeout=30)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def container(tmp_path: Path, *args: str, before: tuple[str, ...] = (), **environ: str) -> Iterator[Container]:
    """Run `faas serve` in an otherwise empty environment, on the port that the environment says."""
    port, log = free_port(), tmp_path / "container.log"
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    kept |= {"FAAS_HOME": str(tmp_path / "home"), "FAAS_LAME_DUCK_S": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*before, *COMMAND, "serve", *args], cwd="/", env={**kept, "PORT": str(port), **environ}, stderr=out
        )
    try:
        yield Container(process, f"http://127.0.0.1:{port}", log)
    finally:
        process.kill()
        process.wait()


def write(folder: Path, source: str) -> Path:
    (folder / "aid").mkdir(parents=True)
    (folder / "aid" / "kinds.py").write_text("class Kind:\n    def __init__(self, name): self.name = name\n")
    (folder / "app.py").write_text(source)
    return folder / "app.py"


def pack(tmp_path: Path, source: str, *options: str) -> Path:
    """Pack code, and take it away."""
    app = write(tmp_path / "project", source)
    done = run(*COMMAND[2:], "bundle", str(app), "-o", str(tmp_path / "b"), *options, FAAS_HOME=str(tmp_path / "maker"))
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "project")
    shutil.rmtree(tmp_path / "maker", ignore_errors=True)
    return tmp_path / "b"


def test_a_bundle_is_set_up_served_and_ended(tmp_path):
    folder = pack(tmp_path, STATEFUL)
    with container(tmp_path, "--bundle", str(folder)) as served:
        served.until_ready()
        answer = served.call(3)
        assert answer.json() == [3, "a", True]
        assert served.end() == 0
    said = served.log.read_text()
    assert "setup() runs: the bundle of embed has no snapshot" in said
    assert "setting up" in said


def test_a_bundle_with_its_snapshot_thaws_and_answers_without_the_users_files(tmp_path):
    folder = pack(tmp_path, STATEFUL, "--snapshot")
    with container(tmp_path, FAAS_BUNDLE=str(folder)) as served:
        served.until_ready()
        assert served.call(3).json() == [3, "a", False]
        assert served.end() == 0
    assert "setting up" not in served.log.read_text()


def test_a_script_s_bundle_is_made_ready_and_thaws_from_a_volume(tmp_path):
    project = tmp_path / "project"
    write(
        project,
        STATEFUL
        + f"\nfrom faas import bundle\nfrom pathlib import Path\nbundle.make(embed, Path({str(tmp_path / 'b')!r}))\n",
    )
    done = run("app.py", cwd=project)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    made = run(*COMMAND[2:], "snapshot", "create", str(tmp_path / "b"), FAAS_HOME=str(tmp_path / "maker"))
    assert made.returncode == 0, made.stderr
    assert "its state is frozen" in made.stderr
    with container(
        tmp_path, "--bundle", str(tmp_path / "b"), FAAS_SNAPSHOT_DIR=str(tmp_path / "maker" / "snapshots")
    ) as served:
        served.until_ready()
        assert served.call(3).json() == [3, "a", False]
        assert served.end() == 0


def test_a_bundle_and_its_snapshot_come_from_s3(tmp_path):
    folder = pack(tmp_path, STATEFUL)
    maker = {"FAAS_HOME": str(tmp_path / "maker")}
    done = run(*COMMAND[2:], "snapshot", "create", str(folder), **maker)
    assert done.returncode == 0, done.stderr
    with rclone(tmp_path, "bucket") as server:
        shutil.copytree(folder, server.root / "bucket" / "bundles" / "embed")  # before the server looks there
        store = "s3://bucket/snapshots"
        done = run(*COMMAND[2:], "snapshot", "push", "embed", store, **maker, **server.environment())
        assert done.returncode == 0, done.stderr
        environ = {**server.environment(), "FAAS_SNAPSHOT_URI": f"{store}/embed"}
        with container(tmp_path, "--bundle", "s3://bucket/bundles/embed", **environ) as served:
            served.until_ready()
            assert served.call(3).json() == [3, "a", False]
            assert served.end() == 0
    assert len(list((tmp_path / "home" / "bundles").iterdir())) == 1


def test_a_snapshot_that_is_of_no_use_is_told_and_setup_runs(tmp_path):
    folder = pack(tmp_path, STATEFUL, "--snapshot")
    skeleton = next(path for path in (folder / "snapshot").iterdir() if path.name.startswith("skeleton"))
    skeleton.write_bytes(skeleton.read_bytes()[:-1] + b"!")
    with container(tmp_path, "--bundle", str(folder)) as served:
        served.until_ready()
        assert served.call(3).json() == [3, "a", True]
        assert served.end() == 0
    assert "setup() runs, since the snapshot does not thaw" in served.log.read_text()


def test_kn_06_the_port_is_open_at_once_and_ready_comes_after_the_load(tmp_path):
    folder = pack(tmp_path, SLOW)
    with container(tmp_path, "--bundle", str(folder)) as served:
        begun, first, statuses = time.monotonic(), None, set()
        while 200 not in statuses:
            try:
                answer = served.get("/readyz")
            except httpx.TransportError:
                assert first is None, "the port was open, and then closed"
                assert time.monotonic() < begun + 60
                continue
            first = first or answer
            statuses.add(answer.status_code)
            if answer.status_code == 503:
                assert answer.headers["retry-after"] == "1"
                assert served.get("/livez").status_code == 200
                early = served.call(1)
                assert early.status_code in (200, 503)
                assert early.status_code == 200 or early.headers["retry-after"] == "1"
        assert first is not None
        assert first.json()["reason"] == "its code is being imported"
        assert statuses == {503, 200}
        assert served.call(1).json() == 1
        assert served.end() == 0


def test_kn_01_a_proxy_that_keeps_sending_after_sigterm_is_never_refused(tmp_path):
    """A stand-in for queue-proxy: 20 requests a second for 3 s after the signal, each on a connection of its own."""
    folder = pack(tmp_path, SLOW.replace("time.sleep(1.0)", "pass"))
    answers: list[int] = []
    with container(tmp_path, "--bundle", str(folder), FAAS_LAME_DUCK_S="4") as served:
        served.until_ready()
        served.process.send_signal(signal.SIGTERM)
        told_at, ready_after = time.monotonic(), []

        def send() -> None:
            answers.append(served.call(len(answers)).status_code)

        senders = []
        while time.monotonic() < told_at + 3.0:
            senders.append(threading.Thread(target=send))
            senders[-1].start()
            if not ready_after or ready_after[-1] == 200:
                ready_after.append(served.get("/readyz").status_code)
            time.sleep(0.05)  # the rate of the proxy
        for sender in senders:
            sender.join()
        assert served.process.wait(30) == 0
    assert ready_after[-1] == 503
    assert len(ready_after) <= 3
    assert answers == [200] * len(senders)


def test_a_signal_while_the_code_is_imported_ends_it_well(tmp_path):
    source = "import os, time\ntime.sleep(60 if 'HANGS' in os.environ else 0)\n" + SLOW.replace(
        "time.sleep(1.0)", "pass"
    )
    folder = pack(tmp_path, source)
    with container(tmp_path, "--bundle", str(folder), HANGS="1") as served:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if served.get("/livez").status_code == 200:
                    break
        assert served.end() == 0


MAY_MOUNT = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
READ_ONLY = ("unshare", "--mount", "--propagation", "private", "sh", "-c")


@pytest.mark.skipif(not MAY_MOUNT, reason="needs the right to mount")
def test_a_read_only_root_and_a_user_without_rights_do(tmp_path):
    folder = pack(tmp_path, STATEFUL, "--snapshot")
    home = tmp_path / "home"
    home.mkdir()
    for path in (tmp_path, *tmp_path.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o755)
    home.chmod(0o777)
    mounts = f"mount --bind {home} {home} && mount -o remount,ro,bind / && "
    mounts += 'exec setpriv --reuid 65532 --regid 65532 --clear-groups "$@"'
    with container(tmp_path, "--bundle", str(folder), before=(*READ_ONLY, mounts, "sh"), HOME="/nonexistent") as served:
        served.until_ready()
        assert served.call(3).json() == [3, "a", False]
        assert served.end() == 0


PACKAGES = {"blake3", "click", "httptools", "msgspec", "starlette", "typing_extensions", "uvicorn", "uvloop"}
PACKAGES |= {"faas", "snapshot"}
NOT_OURS = (
    "faas.bundle.making",
    "faas.bundle.by_value",
    "faas.client",
    "faas.environments",
    "faas.platform",
    "tarfile",
)
WHAT_IT_IMPORTS = """
import sys, threading, os, signal
from faas.cli.main import main
sys.argv = ["faas", "serve", "--bundle", sys.argv[1], "--port", "0"]
import faas.server.serve as served
ready = served.Server._start
async def start(self, load, warm_up, on_ready):
    def tell():
        on_ready()
        print("|".join(sorted(sys.modules)), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
    return await ready(self, load, warm_up, tell)
served.Server._start = start
main()
"""


def test_what_such_a_process_imports_is_known(tmp_path):
    folder = pack(
        tmp_path, "from faas import inference_function\n@inference_function\ndef f(x: int) -> int: return x\n"
    )
    (tmp_path / "show.py").write_text(WHAT_IT_IMPORTS)
    done = run(str(tmp_path / "show.py"), str(folder), FAAS_HOME=str(tmp_path / "home"), FAAS_LAME_DUCK_S="0")
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.strip().split("|"))
    installed = (
        {name.partition(".")[0] for name in found}
        - sys.stdlib_module_names
        - {"__main__", "__mp_main__", "cython_runtime"}
    )
    assert {name for name in installed if not name.startswith(("_", "faas_"))} == {*PACKAGES, "app"}
    assert [name for name in NOT_OURS if name in found] == []


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--bundle", "/nonexistent"], r"bundle\.json cannot be read"),
        (["app.py", "--bundle", "/x"], "both a target"),
        ([], "TARGET"),
        (["--bundle", "/x", "--reload"], "does not change"),
    ],
)
def test_a_call_that_cannot_be_meant_is_told(args, why):
    done = run(*COMMAND[2:], "serve", *args, "--port", "0")
    assert done.returncode in (1, 2)
    assert re.search(why, done.stderr)
