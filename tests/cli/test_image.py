"""`faas image` against a real registry."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import registry_server
from tests.cli.conftest import Faas
from tests.registry_server import Registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry_server.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("DOCKER_AUTH_CONFIG", "FAAS_REGISTRY", "FAAS_REGISTRY_USER"):
        monkeypatch.delenv(name, raising=False)


@registry_server.needed
def test_files_are_put_on_an_image_shown_and_copied(faas: Faas, registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("print('hi')")
    to = f"{registry.host}/app:v1"
    words = ["image", "append", "scratch", "--to", to, "--add", f"{tmp_path / 'app'}:/app", "--user", "1:1"]
    words += ["--entrypoint", "python3 -m main", "--env", "A=b=c", "--label", "x=y", "--workdir", "/app"]
    first = faas(*words, "--json")
    assert first.code == 0, first.err
    (row,) = json.loads(first.out)
    assert (row["is_new"], row["num_sent"]) == (True, 2)
    (again,) = json.loads(faas(*words, "--json").out)
    assert (again["image"], again["is_new"], again["sent_bytes"]) == (row["image"], False, 0)

    shown = faas("image", "inspect", to)
    assert shown.code == 0, shown.err
    lines = dict(line.split(": ", 1) for line in shown.out.splitlines())
    found = {name: value.strip() for name, value in lines.items()}
    assert found["image"] == row["image"]
    assert (found["entrypoint"], found["user"], found["env A"], found["label x"]) == (
        "python3 -m main",
        "1:1",
        "b=c",
        "y",
    )
    document = json.loads(faas("image", "inspect", to, "--json").out)
    assert document["config"]["config"]["WorkingDir"] == "/app"

    copied = faas("image", "push", to, f"{registry.host}/other:v1", "--json")
    (copy,) = json.loads(copied.out)
    assert copy["image"].partition("@")[2] == row["image"].partition("@")[2]
    assert copy["sent_bytes"] == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["inspect", "127.0.0.1:1/UPPER"], 2, "names no image"),
        (["inspect", "127.0.0.1:1/app", "--platform", "x"], 2, "is no platform"),
        (["append", "scratch", "--to", "127.0.0.1:1/a", "--add", "/nowhere:/x"], 2, "there is no /nowhere"),
        (
            ["append", "scratch", "--to", "127.0.0.1:1/a", "--add", "/etc/hostname"],
            2,
            "does not say where in the image",
        ),
        (["append", "scratch", "--to", "127.0.0.1:1/a", "--env", "A"], 2, "--env A: has no value"),
        (["append", "scratch", "--to", "127.0.0.1:1/a", "--add", "/etc:relative"], 1, "is no place in an image"),
        (["runtime", "--to", "127.0.0.1:1/a"], 2, "the image needs one base"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(faas: Faas, words: list[str], code: int, says: str) -> None:
    outcome = faas("image", *words)
    assert outcome.code == code
    assert says in outcome.err
    assert "\nnext:  " in outcome.err


@registry_server.needed
def test_what_is_not_in_the_registry_is_said(faas: Faas, registry: Registry) -> None:
    outcome = faas("image", "inspect", f"{registry.host}/nothing:v1")
    assert outcome.code == 1
    assert f"error: {registry.host}/nothing: the manifest v1: answered 404" in outcome.err
    assert "next:  correct the name, or push it there" in outcome.err


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_an_image_is_built_with_the_first_program_that_works(
    faas: Faas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docker is there without its daemon, podman answers; what it is asked to build is kept."""
    programs, context = tmp_path / "programs", tmp_path / "context"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    program(programs, "docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
    program(
        programs,
        "podman",
        f'echo "$@" >> {tmp_path}/said; for last; do :; done; [ "$1" != build ] || cp -r "$last" {context}',
    )
    program(programs, "buildah", "exit 0")
    outcome = faas("image", "build", "cpu", "--tag", "registry.test/runtime:1", "--extra", "onnx", "--push")
    assert outcome.code == 0, outcome.err
    asked, built, pushed = (tmp_path / "said").read_text().splitlines()
    assert asked == "info"
    assert built.startswith("build --file ")
    assert "Dockerfile.cpu --tag registry.test/runtime:1 --build-arg EXTRAS=onnx /" in built
    assert pushed == "push registry.test/runtime:1"
    assert len(list((context / "dist").glob("faas-*.whl"))) == 1
    assert (context / "constraints.txt").is_file()


def test_without_a_program_it_is_said_how_to_do_without(
    faas: Faas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
    outcome = faas("image", "build", "cuda", "--tag", "registry.test/runtime:1")
    assert outcome.code == 1
    assert (
        "docker does not work (Cannot connect to the daemon), podman is not installed, buildah is not installed"
        in outcome.err
    )
    assert "faas image runtime --base" in outcome.err
    program(tmp_path, "podman", 'if [ "$1" = build ]; then exit 3; fi')
    assert "podman build ended with status 3" in faas("image", "build", "cuda", "--tag", "a/b:1").err
