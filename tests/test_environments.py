"""Environments made for real by pip, from wheels of a folder: no network is asked."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from faas import environments, installer
from faas.environments import Environment, Recipe
from faas.errors import NotPrepared, SettingError
from tests.wheels import only_from, write_wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    only_from(monkeypatch, tmp_path / "wheels")
    return tmp_path / "wheels"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


def have(root: Path, *needed: str) -> tuple[Environment, list[str]]:
    steps: list[str] = []
    python = asyncio.run(environments.have(root, needed, steps.append))
    return Environment.of_python(python), steps


def ask(environment: Environment, code: str) -> str:
    command = [environment.python, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_it_holds_this_same_faas_and_the_requirements_and_nothing_else(wheels: Path, root: Path) -> None:
    write_wheel(wheels, "tiny_needed", "1.0")
    write_wheel(wheels, "tiny_wanted", "2.5", requires=["tiny_needed>=1"])
    made, steps = have(root, "tiny-wanted>=2")
    assert [step.replace("_", "-") for step in steps] == [
        "making an environment with tiny-wanted>=2",
        "installing tiny-needed, tiny-wanted",
    ]
    told = ask(made, "import tiny_wanted, faas; print(tiny_wanted.VERSION, faas.__file__)").split()
    assert told[0] == "2.5"
    assert Path(told[1]).resolve() == Path(environments.__file__).with_name("__init__.py")
    assert ask(made, "import importlib.util as u; print([u.find_spec(n) for n in ('pytest', 'pip')])") == "[None, None]"
    assert ask(made, "import faas.instance, snapshot, warmpool, handlers; print('fine')") == "fine"
    again, steps = have(root, "Tiny_Wanted >= 2")
    assert (again, steps) == (made, [])
    assert made.recipe() == Recipe.of(["tiny-wanted>=2"])
    assert [one.digest for one in environments.all_in(root)] == [made.digest]


def test_a_checkout_on_the_path_describes_faas_as_well(
    wheels: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip install -e` leaves an egg-info in a checkout, which is found first where one runs `python -m faas` in it."""
    info = tmp_path / "checkout" / "faas.egg-info"
    info.mkdir(parents=True)
    ours = metadata.distribution("faas")
    (info / "PKG-INFO").write_text(ours.read_text("METADATA") or ours.read_text("PKG-INFO") or "")
    monkeypatch.syspath_prepend(tmp_path / "checkout")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "checkout"))
    assert metadata.distribution("faas").read_text("METADATA") is None
    write_wheel(wheels, "tiny_wanted", "2.5")
    made, _ = have(root, "tiny-wanted")
    assert ask(made, "import tiny_wanted; print(tiny_wanted.VERSION)") == "2.5"


@pytest.mark.slow
def test_what_faas_depends_on_may_be_another_version_there_and_stays_what_it_is_here(wheels: Path, root: Path) -> None:
    before = metadata.version("mdurl")
    module = Path(str(metadata.distribution("mdurl").locate_file("mdurl/__init__.py")))
    text = module.read_bytes()
    write_wheel(wheels, "mdurl", "0.1.999")
    made, _ = have(root, "mdurl==0.1.999")
    assert ask(made, "import mdurl; print(mdurl.VERSION)") == "0.1.999"
    assert metadata.version("mdurl") == before
    assert module.read_bytes() == text


@pytest.mark.slow
def test_a_contradiction_names_both_sides(wheels: Path, root: Path) -> None:
    write_wheel(wheels, "tiny_one", "1.0", requires=["tiny_both==1"])
    write_wheel(wheels, "tiny_two", "1.0", requires=["tiny_both==2"])
    write_wheel(wheels, "tiny_both", "1")
    write_wheel(wheels, "tiny_both", "2")
    with pytest.raises(NotPrepared, match=r"tiny-one 1.0 depends on tiny.both==1, but tiny-two 1.0 depends on tiny"):
        have(root, "tiny-one", "tiny-two")
    write_wheel(wheels, "msgspec", "0.1")
    with pytest.raises(NotPrepared, match=r"requirements= has msgspec<0\.2, but faas \S+ depends on msgspec>=0\.20"):
        have(root, "msgspec<0.2")
    assert [one for one in environments.all_in(root) if one.is_made] == []


@pytest.mark.slow
def test_constraints_hold_there_too(wheels: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(wheels, "tiny_one", "1")
    write_wheel(wheels, "tiny_one", "2")
    (tmp_path / "constraints.txt").write_text("tiny-one<2\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    assert ask(have(root, "tiny-one")[0], "import tiny_one; print(tiny_one.VERSION)") == "1"
    with pytest.raises(NotPrepared, match="requirements= has tiny-one==2, but the constraints say tiny-one<2"):
        have(root, "tiny-one==2")


@pytest.mark.slow
def test_what_is_nowhere_is_named_and_what_cannot_be_reached_is_told(
    wheels: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotPrepared, match=r"pip finds no tiny-none; correct its name .* own words: .*\.log"):
        have(root, "tiny-none")
    with pytest.raises(SettingError, match="pip would not take"):
        have(root, "tiny none")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(NotPrepared, match=r"index cannot be reached to look for tiny-none \(.*\); go online"):
        have(root, "tiny-none")


@pytest.mark.slow
def test_what_a_killed_builder_has_left_is_made_anew(wheels: Path, root: Path) -> None:
    write_wheel(wheels, "tiny_one", "1")
    half = Environment(root, Recipe.of(["tiny-one"]).digest)
    half.site_packages.mkdir(parents=True)
    (half.site_packages / "tiny_one.py").write_text("VERSION = 'half'")
    assert not half.is_made
    made, _ = have(root, "tiny-one")
    assert made == half
    assert ask(made, "import tiny_one; print(tiny_one.VERSION)") == "1"


def _tell_steps(root: Path, told: Any) -> None:
    told.put(have(root, "tiny-one")[1])


@pytest.mark.slow
def test_two_that_want_the_same_make_it_once(wheels: Path, root: Path) -> None:
    write_wheel(wheels, "tiny_one", "1")
    spawning = multiprocessing.get_context("spawn")
    told = spawning.Queue()
    both = [spawning.Process(target=_tell_steps, args=(root, told)) for _ in range(2)]
    for one in both:
        one.start()
    steps = [told.get(timeout=100) for _ in both]
    for one in both:
        one.join()
    told.close()
    told.join_thread()
    made = [one for one in steps if any("making an environment" in step for step in one)]
    assert len(made) == 1
    (environment,) = environments.all_in(root)
    assert environment.is_made


@pytest.mark.slow
def test_giving_up_ends_pip_and_a_later_one_succeeds(wheels: Path, root: Path) -> None:
    write_wheel(wheels, "tiny_one", "1")

    async def give_up() -> None:
        begun = asyncio.Event()
        making = asyncio.ensure_future(environments.have(root, ["tiny-one"], lambda _: begun.set()))
        await begun.wait()
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

    asyncio.run(give_up())
    (half,) = environments.all_in(root) or [Environment(root, Recipe.of(["tiny-one"]).digest)]
    assert not half.is_made
    assert have(root, "tiny-one")[0].is_made


@pytest.mark.slow
def test_what_is_used_is_known_and_what_is_removed_is_gone(wheels: Path, root: Path, tmp_path: Path) -> None:
    write_wheel(wheels, "tiny_one", "1")
    made, _ = have(root, "tiny-one")
    record = tmp_path / "record.json"
    assert not environments.is_used(made, [record])
    record.write_text(f'{{"interpreter": "{made.python}"}}')
    assert environments.is_used(made, [record])
    record.unlink()
    program, pipe = "print(flush=True); input()", subprocess.PIPE
    with subprocess.Popen([made.python, "-c", program], stdin=pipe, stdout=pipe) as running:
        assert running.stdout is not None
        running.stdout.readline()  # it has begun
        assert environments.is_used(made, [])
        running.send_signal(signal.SIGTERM)
    assert made.remove()
    assert not made.folder.exists()
    assert environments.all_in(root) == []


def test_what_pip_says_is_told_in_steps() -> None:
    lines = {
        "  Downloading numpy-2.3.5-cp311-cp311-manylinux.whl (16.9 MB)": "downloading numpy-2.3.5 (16.9 MB)",
        "Downloading some/where/a_b-1-py3-none-any.whl (3 kB)": "downloading a_b-1 (3 kB)",
        "  Downloading a_b-1-py3-none-any.whl.metadata (3 kB)": None,
        "  Building wheel for slow (pyproject.toml): started": "building slow",
        "Installing collected packages: a, b": "installing a, b",
        "Installing collected packages: a, b, c, d, e, f": "installing 6 packages",
        "Collecting a": None,
    }
    assert {line: installer.step_of(line) for line in lines} == lines


def test_what_pip_fails_of_is_explained() -> None:
    assert installer.explain("ERROR: a\nERROR: No space left on device\n", 1) == "pip failed: No space left on device"
    assert installer.explain("", -9) == "pip ended with status -9"


@pytest.mark.slow
def test_a_package_of_the_index(root: Path) -> None:
    made, steps = have(root, "humanize<4.12")
    assert ask(made, "import humanize; print(humanize.naturalsize(1000))") == "1.0 kB"
    assert any("humanize" in step for step in steps)
    assert os.access(made.python, os.X_OK)
