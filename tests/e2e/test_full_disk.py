"""A home on a disk that is full: what can be served is, and what cannot be done is said."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import START_S, environ
from tests.e2e.test_platform import eventually

APP = """
from faas import inference_function

@inference_function
async def NAME(x: int) -> int:
    print("x" * 1000, flush=True)
    return x
"""
MAY_MOUNT = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
pytestmark = pytest.mark.skipif(not MAY_MOUNT, reason="needs the right to mount a small disk")


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (2**16, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def command(tmp_path, *, before="true"):
    disk = tmp_path / "d"
    disk.mkdir()
    (tmp_path / "app.py").write_text(APP.replace("NAME", "first"))
    up = f"exec {sys.executable} -P -m faas.cli.main up {tmp_path / 'app.py'} --port 0"
    return disk, ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=4m tmpfs {disk} && {before} && {up}"]


def test_one_that_comes_up_on_a_full_disk_says_so(tmp_path):
    disk, up = command(tmp_path, before=f"(cat /dev/zero > {tmp_path / 'd' / 'filler'} || true) 2> /dev/null")
    done = subprocess.run(up, env=environ(disk / "h"), capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "unexpected" not in done.stderr


@pytest.mark.slow
def test_one_whose_disk_fills_goes_on_serving_and_refuses_what_it_cannot_remember(tmp_path):
    disk, up = command(tmp_path)
    with (tmp_path / "up.log").open("w") as output:
        process = subprocess.Popen(up, env=environ(disk / "h"), stderr=output)
    inside = Path(f"/proc/{process.pid}/root{disk}")
    try:
        said = (
            eventually(lambda: "/f/first/" in (tmp_path / "up.log").read_text(), START_S)
            and (tmp_path / "up.log").read_text()
        )
        url = next(word for word in said.split() if word.endswith("/f/first/"))
        assert httpx.post(url, json=1, timeout=30).json() == 1
        fill(inside)
        assert [httpx.post(url, json=i, timeout=30).json() for i in range(20)] == list(range(20))
        (tmp_path / "other.py").write_text(APP.replace("NAME", "other"))
        control = httpx.HTTPTransport(uds=str(inside / "h" / "run" / "control.sock"))
        with httpx.Client(transport=control, base_url="http://control", timeout=START_S) as client:
            refused = client.post("/deploy", json={"target": str(tmp_path / "other.py")})
        assert "No space left on device" in refused.text
        assert httpx.post(url, json=2, timeout=30).json() == 2
        (inside / "filler").unlink()
        log = inside / "h" / "logs" / "first.jsonl"
        size = log.stat().st_size
        assert httpx.post(url, json=3, timeout=30).json() == 3
        eventually(lambda: log.stat().st_size > size)
        assert (tmp_path / "up.log").read_text().count("its lines are lost") == 1
    finally:
        process.terminate()
        assert process.wait(60) == 0
