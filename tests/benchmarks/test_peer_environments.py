import asyncio
import sysconfig
from pathlib import Path

import pytest

from benchmarks import peer_environments
from benchmarks.peer_environments import NotInstalledError, python_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "faas-benchmarks"


def fake_making(monkeypatch: pytest.MonkeyPatch, says: str) -> list[Path]:
    """Have environments whose interpreter is a script that notes its call and `says` something to the shell."""
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\necho "$@" > {folder}/called\n{says}\n')
        python.chmod(0o755)

    monkeypatch.setattr(peer_environments, "_make", make)
    return made


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_making(monkeypatch, "exit 0")
    first, second = (asyncio.run(python_of("litserve")) for _ in range(2))
    assert first == second
    assert made == [first.parents[1]]
    assert (made[0] / "called").read_text().endswith("litserve==0.2.19\n")


def test_one_that_cannot_be_made_is_told_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_making(monkeypatch, "echo no such thing; exit 1")
    with pytest.raises(NotInstalledError, match="no such thing"):
        asyncio.run(python_of("bentoml"))
    assert list(cache.iterdir()) == []


def test_other_requirements_make_another(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_making(monkeypatch, "exit 0")
    asyncio.run(python_of("mlserver"))
    monkeypatch.setitem(peer_environments.REQUIREMENTS, "mlserver", ("mlserver==1.0",))
    asyncio.run(python_of("mlserver"))
    assert len(set(made)) == 2


@pytest.mark.slow
def test_a_made_one_sees_the_packages_of_this_one_behind_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    peer_environments._make(folder)
    [lines] = [path.read_text() for path in folder.rglob("behind.pth")]
    assert lines.strip() == sysconfig.get_path("purelib")
