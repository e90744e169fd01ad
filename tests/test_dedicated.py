"""`faas serve --bundle`, as a container runs it."""

from __future__ import annotations

import contextlib
import http.client
import json
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from faas.bundle import pack
from faas.cli.main import main
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
import os, time
from faas import inference_function
time.sleep(float(os.environ.get("IMPORT_S", "0")))

@inference_function
class slow:
    def setup(self): time.sleep(float(os.environ.get("SETUP_S", "0")))
    def predict(self, x: int) -> int: return x
"""
COMMAND = [sys.executable, "-P", "-m", "faas.cli.main"]


@dataclass
class Container:
    """A process that serves, and what it has said on standard error."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def until_ready(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if " is ready: " in line:
                return
        raise AssertionError(f"it ended: {self.said}")

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any, dict[str, str]]:
        """Return the status, the body and the headers of an answer, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), {k.lower(): v for k, v in answer.getheaders()}

    def call(self, value: object) -> Any:
        status, answer, _ = self.ask("POST", "/", value)
        assert status == 200, answer
        return answer

    def until_open(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            time.sleep(0.02)  # as a kubelet looks again and again
        raise AssertionError("the port does not open")

    def end(self) -> int:
        """Have it end, and read what it says until then."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        self.lines += self.process.stderr
        return self.process.wait(30)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def container(tmp_path: Path, *args: str, before: tuple[str, ...] = (), **environ: str) -> Iterator[Container]:
    """Run `faas serve` in an otherwise empty environment, on the port that the environment says."""
    port = free_port()
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    kept |= {"FAAS_HOME": str(tmp_path / "home"), "FAAS_LAME_DUCK_S": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*before, *COMMAND, "serve", *args],
        cwd="/",
        env={**kept, "PORT": str(port), **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Container(process, port)
    finally:
        process.kill()
        process.communicate()


def write(folder: Path, source: str) -> Path:
    (folder / "aid").mkdir(parents=True)
    (folder / "aid" / "kinds.py").write_text("class Kind:\n    def __init__(self, name): self.name = name\n")
    (folder / "app.py").write_text(source)
    return folder / "app.py"


def packed(folder: Path, source: str, *options: str) -> Path:
    """Pack code, and take it away."""
    app = write(folder / "project", source)
    done = run(*COMMAND[2:], "bundle", str(app), "-o", str(folder / "b"), *options, FAAS_HOME=str(folder / "maker"))
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder / "project")
    shutil.rmtree(folder / "maker", ignore_errors=True)
    return folder / "b"


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with its snapshot."""
    return packed(tmp_path_factory.mktemp("frozen"), STATEFUL, "--snapshot")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose import and setup take as long as the environment says."""
    return packed(tmp_path_factory.mktemp("slow"), SLOW)


def test_a_bundle_is_set_up_served_and_ended(tmp_path, slow):
    with container(tmp_path, "--bundle", str(slow)) as served:
        served.until_ready()
        assert served.call(3) == 3
        assert served.end() == 0
    assert "setup() runs: the bundle of slow has no snapshot" in served.said
    assert re.search(r"slow is ready: start \d+\.\d+ s, import \d+\.\d+ s, setup ", served.said)


def test_the_first_answer_of_a_fresh_instance_says_what_its_start_cost(tmp_path, slow):
    with container(tmp_path, "--bundle", str(slow)) as served:
        served.until_ready()
        told = [served.ask("POST", "/", 3)[2] for _ in range(2)]
    assert [headers["x-cold-start"] for headers in told] == ["1", "0"]
    assert {"start", "import", "setup"} <= {part.partition(";")[0] for part in told[0]["server-timing"].split(", ")}
    assert "import" not in told[1]["server-timing"]


@pytest.mark.slow
def test_a_bundle_with_its_snapshot_thaws_and_answers_without_the_users_files(tmp_path, frozen):
    with container(tmp_path, FAAS_BUNDLE=str(frozen)) as served:
        served.until_ready()
        assert served.call(3) == [3, "a", False]
        assert served.end() == 0
    assert "setting up" not in served.said


@pytest.mark.slow
def test_a_script_s_bundle_is_made_ready_and_thaws_from_a_volume(tmp_path):
    into = tmp_path / "b"
    make = (
        f"\nfrom faas import bundle\nfrom pathlib import Path\nbundle.make(embed, Path({str(into)!r}), verify=False)\n"
    )
    write(tmp_path / "project", STATEFUL + make)
    done = run("app.py", cwd=tmp_path / "project")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "project")
    made = run(*COMMAND[2:], "snapshot", "create", str(into), FAAS_HOME=str(tmp_path / "maker"))
    assert made.returncode == 0, made.stderr
    assert "its state is frozen" in made.stderr
    volume = str(tmp_path / "maker" / "snapshots")
    with container(tmp_path, "--bundle", str(into), FAAS_SNAPSHOT_DIR=volume) as served:
        served.until_ready()
        assert served.call(3) == [3, "a", False]
        assert served.end() == 0


@pytest.mark.slow
def test_a_bundle_and_its_snapshot_come_from_s3(tmp_path):
    folder = packed(tmp_path, STATEFUL)
    maker = {"FAAS_HOME": str(tmp_path / "maker")}
    done = run(*COMMAND[2:], "snapshot", "create", str(folder), **maker)
    assert done.returncode == 0, done.stderr
    with rclone(tmp_path, "bucket") as server:
        shutil.copytree(folder, server.root / "bucket" / "bundles" / "embed")  # before the server looks there
        pack(folder, server.root / "bucket" / "bundles" / "embed.tar")
        store = "s3://bucket/snapshots"
        done = run(*COMMAND[2:], "snapshot", "push", "embed", store, **maker, **server.environment())
        assert done.returncode == 0, done.stderr
        environ = {**server.environment(), "FAAS_SNAPSHOT_URI": f"{store}/embed"}
        for address in ("s3://bucket/bundles/embed", "s3://bucket/bundles/embed.tar"):
            with container(tmp_path, "--bundle", address, **environ) as served:
                served.until_ready()
                assert served.call(3) == [3, "a", False]
                assert served.end() == 0
    assert len(list((tmp_path / "home" / "bundles").iterdir())) == 2


def test_a_snapshot_that_is_of_no_use_is_told_and_setup_runs(tmp_path, frozen):
    folder = tmp_path / "b"
    shutil.copytree(frozen, folder)
    skeleton = next(path for path in (folder / "snapshot").iterdir() if path.name.startswith("skeleton"))
    skeleton.write_bytes(skeleton.read_bytes()[:-1] + b"!")
    with container(tmp_path, "--bundle", str(folder)) as served:
        served.until_ready()
        assert served.call(3) == [3, "a", True]
        assert served.end() == 0
    assert "setup() runs, since the snapshot does not thaw" in served.said


def test_kn_06_the_port_is_open_at_once_and_ready_comes_after_the_load(tmp_path, slow):
    with container(tmp_path, "--bundle", str(slow), IMPORT_S="1.5", SETUP_S="1.5") as served:
        served.until_open()
        reasons = []
        while (found := served.ask("GET", "/readyz"))[0] == 503:
            _, body, headers = found
            reasons.append(body["reason"])
            assert headers["retry-after"] == "1"
            assert served.ask("GET", "/livez")[0] == 200
            status, _, headers = served.ask("POST", "/", 1)
            assert status in (200, 503)
            assert status == 200 or headers["retry-after"] == "1"
            time.sleep(0.1)  # the period of a probe
        assert list(dict.fromkeys(reasons)) == ["its code is being imported", "starting"]
        assert found[0] == 200
        assert served.call(1) == 1
        assert served.end() == 0


def test_kn_01_a_proxy_that_keeps_sending_after_sigterm_is_never_refused(tmp_path, slow):
    """A stand-in for queue-proxy: 20 requests a second for 3 s after the signal, each on a connection of its own."""
    outcomes: list[object] = []
    with container(tmp_path, "--bundle", str(slow), FAAS_LAME_DUCK_S="5") as served:
        served.until_ready()

        def send(value: int) -> None:
            try:
                outcomes.append(served.call(value) == value)
            except Exception as error:
                outcomes.append(error)

        served.process.send_signal(signal.SIGTERM)
        begun, senders = time.monotonic(), []
        while served.ask("GET", "/readyz")[0] != 503:
            assert time.monotonic() < begun + 3.0
        while time.monotonic() < begun + 3.0:
            senders.append(threading.Thread(target=send, args=(len(senders),)))
            senders[-1].start()
            time.sleep(0.05)  # the rate of the proxy
        for sender in senders:
            sender.join()
        assert served.process.wait(30) == 0
    assert len(outcomes) >= 10
    assert [outcome for outcome in outcomes if outcome is not True] == []


def test_a_signal_while_the_code_is_imported_ends_it_well(tmp_path, slow):
    with container(tmp_path, "--bundle", str(slow), IMPORT_S="60") as served:
        served.until_open()
        assert served.ask("GET", "/livez")[0] == 200
        assert served.end() == 0


MAY_MOUNT = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
READ_ONLY = ("unshare", "--mount", "--propagation", "private", "sh", "-c")


@pytest.mark.skipif(not MAY_MOUNT, reason="needs the right to mount")
def test_a_read_only_root_and_a_user_without_rights_do(tmp_path, frozen):
    home = tmp_path / "home"
    home.mkdir()
    for path in {tmp_path, *tmp_path.parents, *frozen.parents}:
        if path.parts[:2] == tmp_path.parts[:2] and len(path.parts) > 2:
            path.chmod(0o755)
    home.chmod(0o777)
    mounts = f"mount --bind {home} {home} && mount -o remount,ro,bind / && "
    mounts += 'exec setpriv --reuid 65532 --regid 65532 --clear-groups "$@"'
    with container(tmp_path, "--bundle", str(frozen), before=(*READ_ONLY, mounts, "sh"), HOME="/nonexistent") as served:
        served.until_ready()
        assert served.call(3) == [3, "a", False]
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
async def start(self, load, num_spared, on_ready):
    def tell():
        on_ready()
        print("|".join(sorted(sys.modules)), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
    return await ready(self, load, num_spared, tell)
served.Server._start = start
main()
"""


def test_what_such_a_process_imports_is_known(tmp_path, slow):
    (tmp_path / "show.py").write_text(WHAT_IT_IMPORTS)
    done = run(str(tmp_path / "show.py"), str(slow), FAAS_HOME=str(tmp_path / "home"), FAAS_LAME_DUCK_S="0")
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.strip().split("|"))
    installed = (
        {name.partition(".")[0] for name in found}
        - sys.stdlib_module_names
        - {"__main__", "__mp_main__", "cython_runtime"}
    )
    assert {name for name in installed if not name.startswith(("_", "faas_"))} == {*PACKAGES, "app"}
    assert [name for name in NOT_OURS if name in found] == []


def test_one_that_takes_too_long_says_so_in_a_line_and_logs_where_it_stood(tmp_path):
    source = SLOW.replace("import inference_function", "import Calls, inference_function").replace(
        "@inference_function", "@inference_function(calls=Calls(startup_timeout_s=0.5))"
    )
    with container(tmp_path, "--bundle", str(packed(tmp_path, source)), SETUP_S="60") as served:
        assert served.process.stderr is not None
        served.lines += served.process.stderr
        assert served.process.wait(30) == 1
    assert "in setup" in served.said
    assert "error: slow did not start: it took longer than startup_timeout_s=0.5\n" in served.said


def test_what_is_no_bundle_is_told(tmp_path):
    done = run(*COMMAND[2:], "serve", "--bundle", str(tmp_path), "--port", "0")
    assert done.returncode == 1
    assert re.search(r"bundle\.json cannot be read", done.stderr)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["app.py", "--bundle", "/x"], "both a target"),
        ([], "TARGET"),
        (["--bundle", "/x", "--reload"], "does not change"),
    ],
)
def test_a_call_that_cannot_be_meant_is_told(args, why):
    outcome = CliRunner().invoke(main, ["serve", *args, "--port", "0"])
    assert outcome.exit_code in (1, 2)
    assert re.search(why, outcome.stderr)
