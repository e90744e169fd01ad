from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from faas.cli.main import main

HELLO = """
from dataclasses import dataclass

from faas import inference_function


@dataclass
class Greeting:
    name: str
    excited: bool = True


@inference_function
def hello(greeting: Greeting) -> str:
    return f"Hello, {greeting.name}{'!' if greeting.excited else '.'}"
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str
    out_bytes: bytes


Faas = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Run in a folder of the test's own, with a home of its own; take back what loading leaves in the interpreter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    for name in ("FAAS_URL", "FAAS_PLATFORM_SOCKET", "FAAS_DEBUG", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    if Path("~/.kube/config").expanduser().is_file():  # no cluster of the developer's is meant
        monkeypatch.setenv("HOME", str(tmp_path))
    before, path = set(sys.modules), list(sys.path)
    handlers, level = logging.root.handlers[:], logging.root.level
    logging.root.handlers[:] = []
    yield tmp_path
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def home(folder: Path) -> Path:
    """Give FAAS_HOME."""
    return folder / "home"


@pytest.fixture
def faas() -> Faas:
    """Give a command line in this process."""

    def call(*args: str, stdin: bytes | None = None) -> Outcome:
        result = CliRunner().invoke(main, args, input=stdin)
        return Outcome(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    return call


@pytest.fixture
def faas_process() -> Faas:
    """Give the same in a process of its own, for what needs real descriptors."""

    def call(*args: str) -> Outcome:
        command = [sys.executable, "-m", "faas.cli.main", *args]
        found = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=100)
        return Outcome(found.returncode, found.stdout.decode(), found.stderr.decode(), found.stdout)

    return call
