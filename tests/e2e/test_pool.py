"""A platform as a container runs it: one port, a token, and functions that follow a folder or a prefix in S3."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import httpx
import pytest

from tests.e2e.conftest import bring_up, environ, faas, take_down
from tests.e2e.test_platform import eventually
from tests.s3_server import rclone

TOKEN = "0123456789abcdefghij"
HELLO = """
    import os
    from faas import Scaling, inference_function

    @inference_function(scaling=Scaling(scaledown_window_s=6))
    async def hello(x: int) -> list:
        return ["VERSION", x, "FAAS_TOKEN" in os.environ]
"""
ADDS = """
    import os
    from faas import inference_function

    @inference_function
    class Adds:
        def setup(self) -> None:
            self.pid_of_setup = os.getpid()
            print("setting up", flush=True)
        def predict(self, x: int) -> int:
            return x + 1
"""


def write_bundle(folder, code, version="one", target="app.py"):
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text(textwrap.dedent(code).replace("VERSION", version))
    (folder / "bundle.json").write_text(json.dumps({"format": 1, "target": target}))


@pytest.fixture
def functions(tmp_path):
    (tmp_path / "functions").mkdir()
    write_bundle(tmp_path / "functions" / "greet", HELLO)
    return tmp_path / "functions"


@pytest.fixture
def pool(tmp_path, functions):
    box = bring_up(tmp_path / "h", "--functions", str(functions), env={"FAAS_TOKEN": TOKEN})
    yield box
    if box.process.poll() is None:
        take_down(box)


def said(box, name="hello"):
    answer = box.call(name, 1)
    return answer.json()[0] if answer.status_code == 200 else answer.status_code


def told(box):
    return (box.home / "up.log").read_text()


def test_a_folder_is_followed(pool, functions):
    assert pool.call("hello", 1).json() == ["one", 1, False]
    write_bundle(functions / "greet", HELLO, "two")
    answers = []
    eventually(lambda: answers.append(said(pool)) or answers[-1] == "two")
    assert set(answers) == {"one", "two"}

    (functions / "half").mkdir()
    (functions / "half" / "app.py").write_text("this is no Python\n")
    eventually(lambda: "the bundle half is not deployed: it has no bundle.json" in told(pool))
    (functions / "half" / "bundle.json").write_text('{"format": 1, "target": "app.py"}')
    eventually(lambda: "SyntaxError" in told(pool))
    assert said(pool) == "two"

    shutil.rmtree(functions / "greet")
    eventually(lambda: said(pool) == 404)
    eventually(lambda: "hello is deleted: its bundle greet is gone" in told(pool))


@pytest.mark.slow
def test_a_bundle_that_was_made_ready_elsewhere_is_not_set_up_again(pool, functions, tmp_path):
    code, elsewhere = tmp_path / "code", tmp_path / "elsewhere"
    write_bundle(code, ADDS, target="app.py:Adds")
    assert (
        faas("snapshot", "create", str(code / "app.py"), "--store", str(elsewhere), home=tmp_path / "h2").returncode
        == 0
    )
    shutil.copy(elsewhere / "adds.json", code / "preparation.json")
    shutil.copytree(elsewhere / "adds" / "latest", code / "snapshot")
    shutil.rmtree(elsewhere)
    before = told(pool)
    code.rename(functions / "adds")
    eventually(lambda: pool.call("adds", 1).status_code == 200)
    assert "setting up" not in told(pool)[len(before) :]
    assert pool.call("adds", 1).json() == 2
    assert pool.function("adds")["snapshot"].startswith(str(pool.home))


@pytest.mark.slow
def test_bundles_of_faas_bundle_are_followed_with_and_without_their_snapshots(pool, functions, tmp_path):
    code = tmp_path / "code"
    write_bundle(code, ADDS)
    (code / "bundle.json").unlink()
    made = faas("bundle", str(code / "app.py"), "-o", str(tmp_path / "one"), "--snapshot", home=tmp_path / "h2")
    assert made.returncode == 0, made.stderr
    (code / "aid.py").write_text("STEP = 2\n")
    (code / "app.py").write_text("from aid import STEP\n" + (code / "app.py").read_text().replace("x + 1", "x + STEP"))
    made = faas("bundle", str(code / "app.py"), "-o", str(tmp_path / "two"), home=tmp_path / "h2")
    assert made.returncode == 0, made.stderr
    shutil.rmtree(code)
    before = told(pool)
    (tmp_path / "one").rename(functions / "adds")
    eventually(lambda: pool.call("adds", 1).status_code == 200)
    assert pool.call("adds", 1).json() == 2
    assert "setting up" not in told(pool)[len(before) :]
    shutil.rmtree(functions / "adds")
    (tmp_path / "two").rename(functions / "adds")
    eventually(lambda: pool.call("adds", 1).status_code == 200 and pool.call("adds", 1).json() == 3)
    assert "setting up" in told(pool)


@pytest.mark.slow
def test_the_control_interface_on_the_port_asks_for_the_token(pool):
    where = "/_faas/control/functions"
    with pool.client() as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            refused = client.get(where, headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        listed = client.get(where, headers={"authorization": f"Bearer {TOKEN}"})
    assert [row["name"] for row in listed.json()] == ["hello"]
    elsewhere = {**environ(pool.home.parent / "nobody"), "FAAS_URL": pool.url, "FAAS_TOKEN": TOKEN}
    command = [sys.executable, "-P", "-m", "faas.cli.main", "describe", "hello", "--json"]
    described = subprocess.run(command, env=elsewhere, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(described.stdout)["name"] == "hello"
    httpx.post(f"{pool.url}/_faas/control/shutdown", headers={"authorization": f"Bearer {TOKEN}"}).raise_for_status()
    assert pool.process.wait(60) == 0


@pytest.mark.slow
def test_without_a_token_there_is_none_on_the_port(box):
    with box.client() as client:
        assert client.get("/_faas/control/functions").status_code == 404


def test_a_token_that_is_easily_guessed_is_refused(tmp_path):
    refused = faas("up", "--port", "0", "--token", "secret", home=tmp_path / "h")
    assert (refused.returncode, "16 or more" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_what_went_while_the_platform_was_down_is_gone_and_the_rest_is_no_new_revision(pool, functions):
    write_bundle(functions / "other", HELLO.replace("hello", "other"))
    eventually(lambda: said(pool, "other") == "one")
    before = pool.function("hello")["revision"]
    take_down(pool)
    shutil.rmtree(functions / "other")
    again = bring_up(pool.home, "--functions", str(functions))
    try:
        (row,) = again.listed("list")
        assert (row["name"], row["revision"], row["revisions"]) == ("hello", before, 1)
    finally:
        take_down(again)


@pytest.mark.slow
def test_a_prefix_in_s3_is_followed(tmp_path):
    with rclone(tmp_path, "bucket") as server:
        home = server.root / "bucket" / "pool"
        home.mkdir()
        write_bundle(home / "greet", HELLO)
        box = bring_up(tmp_path / "h", "--functions", "s3://bucket/pool", env=server.environment())
        try:
            assert said(box) == "one"
            put(server, "pool/greet/app.py", textwrap.dedent(HELLO).replace("VERSION", "two"))
            eventually(lambda: said(box) == "two", within_s=60)
        finally:
            take_down(box)


def put(server, key, text):
    """Write an object through the server, which does not see what is changed behind its back."""
    from snapshot.s3_client import S3Client, S3Options

    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        S3Client("bucket", S3Options(endpoint_url=server.endpoint)).put(key, text.encode())


# A mount namespace in which all but two folders is read-only, as a container with a read-only root has it.
READ_ONLY = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
READ_ONLY += [
    'mount --bind "$1" "$1" && mount --bind "$2" "$2" && mount -o remount,ro,bind / && shift 2 && exec "$@"',
    "sh",
]


def can_be_read_only(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    tried = [*READ_ONLY, str(tmp_path / "one"), str(tmp_path / "two"), "touch", str(tmp_path / "written")]
    return subprocess.run(tried, capture_output=True, timeout=30, check=False).returncode != 0


@pytest.mark.slow
def test_only_its_home_and_the_temporary_folder_are_written(tmp_path, functions):
    if shutil.which("unshare") is None or os.getuid() != 0 or not can_be_read_only(tmp_path):
        pytest.skip("no read-only root can be made here")
    home, scratch = tmp_path / "h", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    inside = [*READ_ONLY, str(home), str(scratch)]
    box = bring_up(home, "--functions", str(functions), before=inside, env={"TMPDIR": str(scratch), "HOME": "/nowhere"})
    try:
        assert said(box) == "one"
        write_bundle(functions / "greet", HELLO, "two")
        eventually(lambda: said(box) == "two")
    finally:
        take_down(box)
    assert [path.name for path in scratch.iterdir() if path.name.startswith("faas-")] == []
