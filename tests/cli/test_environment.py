"""Commands that run a function in this process, where it needs an environment of its own."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest

from tests.cli.process import running
from tests.wheels import only_from, write_wheel

APP = """
    import tiny_one
    from faas import inference_function

    @inference_function(requirements=["tiny-one"])
    def double(x: int) -> int:
        return tiny_one.double(x)
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    only_from(monkeypatch, tmp_path / "wheels")
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    write_wheel(tmp_path / "wheels", "tiny_one", "1", code="def double(x):\n    return 2 * x\n")
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    return str(tmp_path / "app.py")


@pytest.mark.slow
def test_run_and_serve_go_on_in_an_environment_that_has_what_the_function_requires(target: str) -> None:
    command = [sys.executable, "-m", "faas.cli.main", "run", target, "-d", "@-"]
    done = subprocess.run(command, input="21", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    assert "making an environment with tiny-one" in done.stderr
    with running("serve", target, "--port", "0") as served:
        url = served.wait_for(r"is at (http://[\d.:]+)")[1]
        assert httpx.post(url, json=4).json() == 8
        assert served.end(signal.SIGTERM) == 0
    assert not any("making" in line for line in served.lines)


@pytest.mark.slow
def test_what_cannot_be_had_is_one_line_and_what_to_do(target: str, tmp_path: Path) -> None:
    Path(target).write_text(Path(target).read_text().replace("tiny-one", "tiny-none"))
    command = [sys.executable, "-m", "faas.cli.main", "run", target, "-d", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error: pip finds no tiny-none; correct its name" in done.stderr
    assert "next:" in done.stderr
