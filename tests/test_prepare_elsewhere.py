"""Functions that this interpreter does not do for, made ready in an environment with what they require."""

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from faas import environments
from faas.environments import Environment
from faas.errors import NotPrepared
from faas.preparation import Preparation, Preparations
from faas.prepare import prepare, prepare_each
from tests.wheels import only_from, write_wheel

pytestmark = pytest.mark.slow

Write = Callable[[str], str]


@pytest.fixture(autouse=True)
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    only_from(monkeypatch, tmp_path / "wheels")
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    write_wheel(tmp_path / "wheels", "tiny_one", "1", code="def double(x):\n    return 2 * x\n")
    write_wheel(tmp_path / "wheels", "tiny_two", "2")
    return tmp_path / "wheels"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "project").mkdir()

    def write(text: str) -> str:
        (tmp_path / "project" / "app.py").write_text(textwrap.dedent(text))
        return str(tmp_path / "project" / "app.py")

    return write


def made(target: str, store: Path) -> tuple[list[Preparation], list[str]]:
    steps: list[str] = []
    return asyncio.run(prepare(target, store, progress=steps.append)), steps


NEEDS_ONE = """
    from faas import inference_function

    @inference_function(requirements=["tiny-one"], warmup=[3])
    class Doubles:
        def setup(self):
            import tiny_one
            self.version = tiny_one.VERSION
        def predict(self, x: int) -> int:
            import tiny_one
            return tiny_one.double(x)

    @inference_function(requirements=["msgspec"])
    def plain(x: int) -> int:
        return x
"""


def test_a_function_gets_an_environment_and_what_is_met_here_needs_none(write: Write, tmp_path: Path) -> None:
    target = write(NEEDS_ONE)
    (doubles, plain), steps = made(target, tmp_path / "store")
    assert plain.interpreter is None
    assert doubles.interpreter is not None
    assert Path(doubles.interpreter).is_relative_to(tmp_path / "home" / "environments")
    assert (doubles.compared, doubles.reason) == (True, None)
    assert "tiny_one" in doubles.imports
    assert doubles.origin.distributions["tiny_one"] == "1"
    assert [step for step in steps if "environment" in step] == ["making an environment with tiny-one"]
    assert made(target, tmp_path / "store") == ([doubles, plain], [])


def test_it_is_stale_when_its_environment_is_gone_or_another(write: Write, tmp_path: Path) -> None:
    (doubles, _), _ = made(write(NEEDS_ONE), tmp_path / "store")
    assert doubles.interpreter is not None
    environment = Environment.of_python(doubles.interpreter)
    metadata = environment.site_packages / "tiny_one-1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1", "Version: 3"))
    assert doubles.stale() == doubles.unfit() == "tiny_one was 1 and is 3"
    environment.remove()
    stale = Preparations(tmp_path / "store").read("doubles")
    assert stale is not None
    assert "the environment of" in str(stale.stale())


def test_a_file_that_imports_at_its_top_what_its_functions_require(write: Write, tmp_path: Path) -> None:
    target = write("""
        import tiny_one
        import tiny_two
        from faas import inference_function

        WANTED = ("tiny-two>=2",)

        @inference_function(requirements=["tiny-one"])
        def double(x: int) -> int:
            return tiny_one.double(x)

        @inference_function(requirements=WANTED)
        def version() -> str:
            return tiny_two.VERSION
    """)
    (double, version), _ = made(target, tmp_path / "store")
    assert double.interpreter == version.interpreter is not None
    recipe = Environment.of_python(str(double.interpreter)).recipe()
    assert recipe is not None
    assert recipe.requirements == ("tiny-one", "tiny-two>=2")


def test_one_that_cannot_be_had_keeps_no_other_from_being_ready(write: Write, tmp_path: Path) -> None:
    target = write(NEEDS_ONE.replace("tiny-one", "tiny-none"))
    came = asyncio.run(prepare_each(target, tmp_path / "store", progress=lambda _: None))
    assert [one.name for one in came.ready] == ["plain"]
    assert "pip finds no tiny-none" in str(came.failed["doubles"])


def test_what_an_environment_lacks_is_told_with_what_it_holds(write: Write, tmp_path: Path) -> None:
    target = write("""
        import pytest
        from faas import inference_function

        @inference_function(requirements=["tiny-one"])
        def double(x: int) -> int:
            return x
    """)
    with pytest.raises(
        NotPrepared, match=r"No module named 'pytest' .*holds faas and .*tiny-one.* add what is missing"
    ):
        made(target, tmp_path / "store")


def test_prune_leaves_what_a_preparation_names(write: Write, tmp_path: Path) -> None:
    (doubles, _), _ = made(write(NEEDS_ONE), tmp_path / "home" / "snapshots")
    asyncio.run(environments.have(tmp_path / "home" / "environments", ["tiny-two"], lambda _: None))

    def run(*command: str) -> list[dict[str, object]]:
        done = subprocess.run(
            [sys.executable, "-m", "faas.cli.main", "env", *command, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows: list[dict[str, object]] = json.loads(done.stdout)
        return rows

    rows = {str(row["requirements"]): row for row in run("list")}
    assert (rows["['tiny-one']"]["used"], rows["['tiny-two']"]["used"]) == (True, False)
    assert [row["requirements"] for row in run("prune")] == [["tiny-two"]]
    assert [row["python"] for row in run("list")] == [doubles.interpreter]
