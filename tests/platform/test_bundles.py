import asyncio
import json
import platform
import shutil
from importlib import metadata

import msgspec
import pytest

from faas.bundle.manifest import Bundle, File
from faas.errors import SettingError
from faas.platform import bundles, places
from faas.platform.bundles import BundleError
from faas.preparation import Origin, Preparation, file_digest
from tests.platform.test_loop import description
from tests.s3_server import rclone


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "bundle"
    made.mkdir()
    (made / "app.py").write_text("x = 1\n")
    say(made)
    return made


def say(folder, **changes):
    (folder / "bundle.json").write_text(json.dumps({"format": 1, "target": "app.py", **changes}))


def test_a_bundle_says_what_it_is(folder):
    assert bundles.read(folder) == f"{folder}/app.py"
    say(folder, files={"app.py": file_digest(folder / "app.py")}, target="app.py:F")
    assert bundles.read(folder) == f"{folder}/app.py:F"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": 3}, "format 3"),
        ({"target": 5}, "bundle.json"),
        ({"targt": "app.py"}, "targt"),
        ({"target": "/etc/app.py"}, "must lie in"),
        ({"target": "../app.py"}, "must lie in"),
        ({"files": {"app.py": "0"}}, "app.py is not there, or not as"),
        ({"files": {"other.py": "0"}}, "other.py is not there"),
    ],
)
def test_what_is_no_bundle_is_told(folder, changes, why):
    say(folder, **changes)
    with pytest.raises(BundleError, match=why):
        bundles.read(folder)


def test_a_bundle_that_is_not_whole_yet_has_no_word_of_itself(folder):
    (folder / "bundle.json").unlink()
    with pytest.raises(BundleError, match=r"no bundle\.json"):
        bundles.read(folder)


def test_the_digest_is_of_content_and_names_alone(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "same")
    before = bundles.content_digest(folder)
    assert bundles.content_digest(tmp_path / "same") == before
    (folder / "app.py").rename(folder / "other.py")
    assert bundles.content_digest(folder) != before


def made_ready(folder, **changes):
    """Put a preparation there as one that was made on another machine."""
    origin = Origin(
        python=platform.python_version(),
        sources={"/home/ada/code/app.py": file_digest(folder / "app.py") or ""},
        distributions={},
    )
    made = Preparation(
        description=description(target="/home/ada/code/app.py:F"), origin=origin, siblings=("f",), imports=("json",)
    )
    made = msgspec.structs.replace(made, **changes)
    (folder / "preparation.json").write_bytes(msgspec.json.encode(made))
    return made


def test_a_preparation_is_moved_to_where_its_bundle_is_and_stays_the_same_revision(folder):
    assert bundles.prepared(folder, bundles.read(folder)) is None
    made = made_ready(folder, snapshot="/home/ada/snapshots/f/0123", digest="blake3:0123")
    (folder / "snapshot").mkdir()
    (folder / "snapshot" / "manifest.json").write_text("{}")
    moved = bundles.prepared(folder, bundles.read(folder))
    assert "damaged" in moved  # this manifest says nothing
    made = made_ready(folder, snapshot="s3://bucket/f@0123", digest="blake3:0123")
    shutil.rmtree(folder / "snapshot")
    moved = bundles.prepared(folder, bundles.read(folder))
    assert (moved.code, moved.snapshot) == (f"{folder}/app.py:F", "s3://bucket/f@0123")
    assert moved.revision == made.revision


def test_a_preparation_that_does_not_fit_here_says_why(folder):
    made_ready(folder, origin=Origin(python="2.7.18", sources={}, distributions={}))
    assert "Python was 2.7.18" in bundles.prepared(folder, bundles.read(folder))
    made_ready(folder, origin=Origin(python=platform.python_version(), sources={}, distributions={"nosuch": "1"}))
    assert "nosuch was 1 and is gone" in bundles.prepared(folder, bundles.read(folder))


def test_a_preparation_of_other_code_is_refused(folder):
    made_ready(folder)
    (folder / "app.py").write_text("x = 2\n")
    with pytest.raises(BundleError, match=r"app\.py is not there, or not as it was"):
        bundles.prepared(folder, bundles.read(folder))
    made_ready(folder, origin=Origin(python="3", sources={"/opt/other.py": "0"}, distributions={}))
    with pytest.raises(BundleError, match="outside of /home/ada/code"):
        bundles.prepared(folder, bundles.read(folder))
    (folder / "preparation.json").write_text("{")
    with pytest.raises(BundleError, match=r"preparation\.json"):
        bundles.prepared(folder, bundles.read(folder))


HERE = metadata.version("msgspec")


def travelled(folder, of_code, imported, **changes):
    """Have the bundle as `faas bundle` makes it, of code that imports `of_code`, made ready where `imported` was."""
    origin = Origin(python=platform.python_version(), sources={}, distributions=imported)
    made_ready(folder, origin=origin, **changes)
    paths = [path for path in folder.iterdir() if path.name != "bundle.json"]
    files = {path.name: File(file_digest(path) or "", path.stat().st_size) for path in paths}
    made = Bundle(name="f", target="app:F", python=origin.python, faas="0", libraries=of_code, files=files)
    (folder / "bundle.json").write_bytes(made.encode())
    return bundles.prepared(folder, bundles.read(folder))


def test_what_was_merely_imported_where_a_bundle_was_made_ready_need_not_be_here(folder):
    used = travelled(folder, {"Msgspec": HERE}, {"msgspec": HERE, "nosuch": "1"}, digest="blake3:0123")
    assert used.origin.distributions == {"msgspec": HERE}
    without = travelled(folder, {"Msgspec": HERE}, {"msgspec": HERE}, digest="blake3:0123")
    assert without.revision == used.revision


@pytest.mark.parametrize(("of_code", "of_state"), [({"msgspec": "0.1"}, {}), ({}, {"msgspec": "0.1"})])
def test_what_the_code_or_the_state_refers_to_must_be_here_in_its_version(folder, of_code, of_state):
    refused = travelled(folder, of_code, {"msgspec": "0.1", "nosuch": "1"}, libraries=of_state)
    assert refused == f"msgspec was 0.1 and is {HERE}"


def test_what_an_exported_state_does_without_need_not_be_here_either(folder):
    exported = {"export": "onnx", "later": ("nosuch",)}
    assert isinstance(travelled(folder, {"nosuch": "1"}, {"nosuch": "1"}, **exported), Preparation)
    late = travelled(folder, {"nosuch": "1"}, {"nosuch": "1"}, **exported, late={"nosuch": "app.py:1"})
    assert late == "nosuch was 1 and is gone"


def test_a_folder_of_bundles_is_looked_at_copied_from_and_waited_on(tmp_path, folder):
    root = tmp_path / "functions"
    root.mkdir()
    place = places.find(str(root))
    assert place.look() == {}

    async def story():
        changes = place.changes()
        await anext(changes)
        shutil.copytree(folder, root / "greet")
        (root / ".hidden").mkdir()
        (root / "file").write_text("")
        await asyncio.wait_for(anext(changes), 20)
        await changes.aclose()

    asyncio.run(story())
    before = place.look()
    assert list(before) == ["greet"]
    assert place.look() == before
    (root / "greet" / "app.py").write_text("x = 22\n")
    assert place.look() != before
    (root / "greet" / "__pycache__").mkdir()
    (tmp_path / "into").mkdir()
    place.copy("greet", tmp_path / "into")
    assert sorted(path.name for path in (tmp_path / "into").iterdir()) == ["app.py", "bundle.json"]


def test_a_prefix_in_s3_is_looked_at_and_copied_from(tmp_path, folder, monkeypatch):
    with rclone(tmp_path, "bucket") as server:
        shutil.copytree(folder, server.root / "bucket" / "pool" / "greet")
        (server.root / "bucket" / "pool" / "greet" / "deep").mkdir()
        (server.root / "bucket" / "pool" / "greet" / "deep" / "data.txt").write_text("data")
        (server.root / "bucket" / "pool" / "stray.txt").write_text("")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        place = places.find("s3://bucket/pool")
        before = place.look()
        assert list(before) == ["greet"]
        assert place.look() == before
        (tmp_path / "into").mkdir()
        place.copy("greet", tmp_path / "into")
        assert (tmp_path / "into" / "deep" / "data.txt").read_text() == "data"
        assert bundles.read(tmp_path / "into").endswith("/app.py")


def test_a_place_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SettingError, match="no such folder"):
        places.find(str(tmp_path / "absent"))
