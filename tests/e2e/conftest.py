"""A real platform, brought up by the command line, for the tests of this folder."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

START_S = 180.0
FUNCTIONS = Path(__file__).with_name("functions.py")


@dataclass
class Box:
    """One running platform."""

    home: Path
    process: subprocess.Popen[str]
    url: str

    def client(self, **settings) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30.0, **settings)

    def call(self, name: str, value: object, **settings) -> httpx.Response:
        with self.client() as client:
            return client.post(f"/f/{name}/", json=value, **settings)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return faas(*arguments, home=self.home)

    def popen(self, *arguments: str, stdout: int | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            _command(*arguments), env=environ(self.home), stdout=stdout, stderr=subprocess.PIPE, text=True
        )

    def listed(self, what: str) -> list[dict]:
        return json.loads(self.run(what, "--json").stdout)

    def function(self, name: str) -> dict:
        return next(f for f in self.listed("list") if f["name"] == name)

    def instances(self, name: str) -> list[dict]:
        return [i for i in self.listed("ps") if i["function"] == name]


def environ(home: Path) -> dict[str, str]:
    return {**os.environ, "FAAS_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def _command(*arguments: str, python: str = sys.executable) -> list[str]:
    return [python, "-P", "-m", "faas.cli.main", *arguments]


def faas(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(*arguments), env=environ(home), capture_output=True, text=True, timeout=START_S, check=False
    )


def bring_up(
    home: Path,
    *arguments: str,
    env: Mapping[str, str] = {},
    before: Sequence[str] = (),
    python: str = sys.executable,
) -> Box:
    """Start `faas up` and wait until it is ready. Its output goes to HOME/up.log.

    `env` is added to the environment, and `before` is what the command is an argument of.
    """
    home.mkdir(parents=True, exist_ok=True)
    command = [*before, *_command("up", *arguments, "--port", "0", python=python)]
    with (home / "up.log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=environ(home) | dict(env),
        )
    record = home / "run" / "platform.json"
    try:
        _wait_for(record, process)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Box(home, process, json.loads(record.read_text())["url"])


def _wait_for(record: Path, process: subprocess.Popen[str]) -> None:
    """Wait for the platform's record, or fail with what it printed when it ends before."""
    for _ in range(int(START_S / 0.05)):
        if record.exists() and json.loads(record.read_text())["pid"] == process.pid:
            return
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        log = (record.parents[1] / "up.log").read_text()
        raise AssertionError(f"faas up ended with status {process.returncode}:\n{log}")
    raise AssertionError("faas up was not ready in time")


def take_down(box: Box) -> None:
    """End the platform by SIGTERM, and check that it leaves no process and ends well."""
    family = psutil.Process(box.process.pid).children(recursive=True)
    box.process.send_signal(signal.SIGTERM)
    assert box.process.wait(60) == 0, (box.home / "up.log").read_text()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Path:
    """Snapshots of the functions, made once."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def another(tmp_path, store) -> Iterator[Callable[[], Box]]:
    """Bring up platforms, one after another, on a home of their own; what is left of the last is killed."""
    made: list[Box] = []

    def make() -> Box:
        made.append(bring_up(tmp_path / "h", str(FUNCTIONS), "--store", str(store)))
        return made[-1]

    yield make
    for box in made:
        if box.process.poll() is None:
            os.killpg(box.process.pid, signal.SIGKILL)
            box.process.wait()


@pytest.fixture(scope="module")
def box(tmp_path_factory, store) -> Iterator[Box]:
    made = bring_up(tmp_path_factory.mktemp("h"), str(FUNCTIONS), "--store", str(store))
    try:
        yield made
    finally:
        if made.process.poll() is None:
            take_down(made)
