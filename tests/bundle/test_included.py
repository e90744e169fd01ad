"""Which files beside the code are meant, and which of those that it names are told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from faas.bundle import included
from faas.bundle.reached import Module


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def module(folder: Path, path: str, code: str) -> Module:
    name = path.removesuffix(".py").replace("/", ".")
    return Module(name, folder / path, path, compile(code, path, "exec"))


def test_links_to_folders_are_followed_but_not_in_a_circle(tmp_path: Path) -> None:
    write(tmp_path, "shared/words/a.txt", "project/assets/b.txt", "project/other/c.txt")
    project = tmp_path / "project"
    (project / "assets" / "words").symlink_to(tmp_path / "shared" / "words")
    (project / "assets" / "again").symlink_to(project / "assets")
    (project / "assets" / "other").symlink_to(project / "other")
    (project / "other" / "back").symlink_to(project / "assets")
    (project / "assets" / "one.txt").symlink_to(tmp_path / "shared" / "words" / "a.txt")
    (project / "assets" / "broken.txt").symlink_to(tmp_path / "absent")
    for pattern in ("assets", "assets/**", "assets/"):
        assert list(included.matching(project, [], pattern)) == [
            "assets/b.txt",
            "assets/one.txt",
            "assets/other/c.txt",
            "assets/words/a.txt",
        ]
    assert list(included.matching(project, [], "assets/words/*.txt")) == ["assets/words/a.txt"]


@pytest.mark.parametrize(
    ("code", "noted"),
    [
        ("HERE / 'data' / 'labels.txt'", ["data/labels.txt"]),
        ("HERE / 'data/labels.txt'", ["data/labels.txt"]),
        ("f'{HERE}/data/labels.txt'", ["data/labels.txt"]),
        ("open('./data/labels.txt')", ["data/labels.txt"]),
        ("os.path.join(HERE, 'data', 'deep', 'er', 'x.bin')", ["data/deep/er/x.bin"]),
        ("def f():\n    return files('pkg').joinpath('prompts').joinpath('one.jinja')", ["prompts/one.jinja"]),
        ("open_text('pkg.data', 'labels.txt')", ["data/labels.txt"]),
        ("(HERE / 'prompts').glob('*.jinja')", ["prompts/*.jinja"]),
        ("HERE.glob('**/*.jinja')", []),
        ("list((Path(__file__).parent / 'prompts').iterdir())", ["prompts"]),
        ("answer['prompts']", []),
        ("answer['data'] = 'labels.json'", []),
        ("Path(__file__).with_name('code')", []),
        ("HERE / '..' / 'secret.txt'", []),
        ("load('.env')", []),
    ],
)
def test_files_that_are_named_in_parts_are_noted(tmp_path: Path, code: str, noted: list[str]) -> None:
    write(
        tmp_path, "pkg/data/labels.txt", "pkg/data/deep/er/x.bin", "pkg/prompts/one.jinja", "pkg/prompts/two.jinja",
        "pkg/code/one.py", "pkg/.env", "pkg/app.py",
    )  # fmt: skip
    found = included.notes([module(tmp_path, "pkg/app.py", code)], tmp_path, {})
    assert [note.partition("include=")[2].strip("'") for note in found] == [f"pkg/{path}" for path in noted]
    assert all(note.startswith("pkg/app.py names ") for note in found)
    files = {f"code/{path.relative_to(tmp_path)}": b"" for path in tmp_path.rglob("*") if path.is_file()}
    assert included.notes([module(tmp_path, "pkg/app.py", code)], tmp_path, files) == []


def test_of_a_folder_that_travels_in_part_the_rest_is_noted(tmp_path: Path) -> None:
    write(tmp_path, "prompts/one.txt", "prompts/two.txt")
    app = module(tmp_path, "app.py", "(HERE / 'prompts').glob('*.txt')")
    assert "include='prompts/*.txt'" in included.notes([app], tmp_path, {"code/prompts/one.txt": b""})[0]
