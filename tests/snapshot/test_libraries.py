import sys
from importlib import metadata
from pathlib import Path

import pytest

from snapshot import libraries


def test_distributions_are_found_by_their_modules() -> None:
    found = libraries.distributions_of(
        {"sklearn.tree._tree", "numpy", "json", "snapshot.thaw", "__main__", "nowhere.at.all"}
    )
    assert found == {"numpy": metadata.version("numpy"), "scikit-learn": metadata.version("scikit-learn")}


def test_of_a_shared_namespace_only_the_owner_of_the_module_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        package = tmp_path / "space" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        info = tmp_path / f"space_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: space-{name}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"space/{name}/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    import space.two

    try:
        assert space.two.__file__
        assert libraries.distributions_of({"space.two"}) == {"space-two": "1.0"}
    finally:
        for module in ("space.two", "space"):
            sys.modules.pop(module, None)


def test_versions_are_compared_whatever_the_spelling_of_the_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "Some_Library-1.2.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert libraries.mismatches({"some-library": "1.2", "Some.Library": "1.2"}) == {}


def test_a_folders_name_is_not_the_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "old-1.0_local.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1.0-local\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert libraries.mismatches({"old": "1.0-local"}) == {}
    assert libraries.mismatches({"old": "1.0"}) == {"old": ("1.0", "1.0-local")}


def test_the_first_on_the_path_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder, version in (("late", "1"), ("early", "2")):
        info = tmp_path / folder / f"twice-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: twice\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path / folder)
    assert libraries.mismatches({"twice": "2"}) == {}
    assert libraries.mismatches({"twice": "1"}) == {"twice": ("1", "2")}
