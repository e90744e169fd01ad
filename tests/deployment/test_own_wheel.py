import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from faas import modules
from faas.deployment import own_wheel


def test_the_wheel_is_the_same_each_time_and_holds_what_runs_here(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    path = own_wheel.write(tmp_path / "one")
    assert path.read_bytes() == own_wheel.write(tmp_path / "other").read_bytes()
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert wheel.read("faas/modules.py") == (modules.HOME / "faas" / "modules.py").read_bytes()
    assert {name.partition("/")[0] for name in names if "dist-info" not in name} == {*modules.OURS, "handlers"}
    assert "faas/platform/page/static/index.html" in names
    assert "deploy/Dockerfile.cpu" in names
    assert not any("__pycache__" in name for name in names)


@pytest.mark.slow
def test_pip_takes_the_wheel(tmp_path: Path) -> None:
    path = own_wheel.write(tmp_path)
    site = tmp_path / "site"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check"),
            *("--target", str(site), str(path)),
        ],
        check=True,
    )
    assert (site / "bin" / "faas").is_file()
    found = subprocess.run(
        [sys.executable, "-S", "-c", "from importlib.metadata import distribution as d; print(d('faas').requires)"],
        env={"PYTHONPATH": str(site)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "msgspec" in found.stdout
    assert "extra == 'torch'" in found.stdout.replace('"', "'")
