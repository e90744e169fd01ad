"""A real cluster, as the environment names it. Without one these tests are skipped; `scripts/test --cluster` runs them.

`KUBECONFIG` and `FAAS_TEST_IMAGE_PREFIX`, a repository prefix that both this machine and the nodes reach, are needed. A
runtime image is expected there under its usual name, or at `FAAS_BASE_IMAGE`. `FAAS_TEST_INSECURE` is a registry that
speaks plain HTTP, `FAAS_NAMESPACE` the namespace, `FAAS_INGRESS` the URL of an ingress whose names are in no DNS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.knative import Cluster
from deploy.knative.connection import connect
from deploy.knative.rest import Rest

PREFIX = os.environ.get("FAAS_TEST_IMAGE_PREFIX", "")
MISSING = [name for name in ("KUBECONFIG", "FAAS_TEST_IMAGE_PREFIX") if not os.environ.get(name)]
REGISTRY = ("--insecure", os.environ["FAAS_TEST_INSECURE"]) if os.environ.get("FAAS_TEST_INSECURE") else ()
_LIMIT_S = 420.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(900))
            if MISSING:
                item.add_marker(pytest.mark.skip(reason=f"no cluster to test on: set {' and '.join(MISSING)}"))


@dataclass(frozen=True)
class Faas:
    """The command line with a folder and a home of its own; `name` is a function that nobody else has."""

    folder: Path
    name: str

    def __call__(self, *words: str, code: int = 0) -> str:
        """Run a command, which is to end with `code`; return what it wrote to standard output."""
        ended = subprocess.run(
            [sys.executable, "-m", "faas.cli.main", *words],
            cwd=self.folder,
            env={**os.environ, "FAAS_HOME": str(self.folder / "home"), "FAAS_IMAGE": PREFIX},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        assert ended.returncode == code, f"{' '.join(words)}:\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def read(self, *words: str) -> Any:
        """Run a command that writes JSON."""
        return json.loads(self(*words, "--json"))

    def deploy(self, *words: str) -> Any:
        """Deploy what is in app.py; return what came of it."""
        (row,) = self.read("deploy", "app.py", *REGISTRY, *words)
        return row

    def write(self, answer: str) -> None:
        """Make app.py a function that gives this answer."""
        (self.folder / "app.py").write_text(
            "from faas import Resources, Scaling, inference_function\n\n\n"
            "@inference_function(\n"
            f"    name={self.name!r},\n"
            "    scaling=Scaling(scaledown_window_s=6),\n"
            '    resources=Resources(cpu=0.2, memory="256Mi"),\n'
            ")\n"
            "class Answer:\n"
            "    def setup(self) -> None:\n"
            f"        self.answer = {answer!r}\n\n"
            "    def predict(self, name: str) -> str:\n"
            '        print("called by", name, flush=True)\n'
            '        return f"{self.answer}, {name}"\n'
        )


@pytest.fixture(scope="module")
def faas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faas]:
    made = Faas(tmp_path_factory.mktemp("cluster"), f"faas-test-{uuid.uuid4().hex[:6]}")
    yield made
    subprocess.run(
        [sys.executable, "-m", "faas.cli.main", "delete", made.name, "--cluster", "--yes"],
        env={**os.environ, "FAAS_HOME": str(made.folder / "home")},
        capture_output=True,
        timeout=_LIMIT_S,
    )


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    made = Rest(connect(namespace=os.environ.get("FAAS_NAMESPACE")))
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(rest: Rest) -> Cluster:
    return Cluster(rest)
