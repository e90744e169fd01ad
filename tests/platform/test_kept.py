import platform
import textwrap
from pathlib import Path

import msgspec
import pytest

from faas.errors import NotPrepared
from faas.platform.kept import Kept
from faas.preparation import Origin, Preparation, file_digest
from tests.platform.test_loop import description


def prepared(app, *others, target="f"):
    sources = {str(path): file_digest(path) for path in (app, *others)}
    origin = Origin(python=platform.python_version(), sources=sources, distributions={})
    described = description(target=f"{app}:{target}")
    return Preparation(description=described, origin=origin, siblings=("f",), imports=())


@pytest.fixture
def app(tmp_path):
    folder = tmp_path / "user"
    (folder / "lib" / "data").mkdir(parents=True)
    (folder / "app.py").write_text("import lib.parts\n")
    (folder / "words.txt").write_text("words")
    (folder / "lib" / "parts.py").write_text("x = 1\n")
    (folder / "lib" / "unused.py").write_text("y = 1\n")
    (folder / "lib" / "data" / "table.csv").write_text("1,2\n")
    (folder / "__pycache__").mkdir()
    (folder / "faas").mkdir()
    (folder / "faas" / "__init__.py").write_text("")
    (folder / "snapshot").mkdir()
    return folder / "app.py"


def test_sources_are_copied_and_what_lies_beside_them_is_linked(tmp_path, app):
    kept = Kept(tmp_path / "platform")
    found = kept.keep(prepared(app, app.parent / "lib" / "parts.py"))
    copy = Path(found.code.rpartition(":")[0])
    app.write_text("changed\n")
    (app.parent / "lib" / "parts.py").unlink()
    assert copy.read_text() == "import lib.parts\n"
    assert (copy.parent / "lib" / "parts.py").read_text() == "x = 1\n"
    assert (copy.parent / "words.txt").read_text() == "words"
    assert (copy.parent / "lib" / "data" / "table.csv").read_text() == "1,2\n"
    assert (copy.parent / "lib" / "unused.py").is_symlink()
    assert sorted(path.name for path in copy.parent.iterdir()) == ["app.py", "lib", "snapshot", "words.txt"]
    assert kept.missing(found) is None


def test_a_revision_keeps_its_id(tmp_path, app):
    preparation = prepared(app)
    assert Kept(tmp_path / "platform").keep(preparation).revision == preparation.revision


def test_the_same_sources_are_kept_once_and_others_apart(tmp_path, app):
    kept = Kept(tmp_path / "platform")
    first = kept.keep(prepared(app))
    assert kept.keep(prepared(app)).code == first.code
    app.write_text("other\n")
    assert kept.keep(prepared(app)).code != first.code


def test_a_source_that_changed_meanwhile_is_refused_and_leaves_nothing(tmp_path, app):
    preparation = prepared(app)
    app.write_text("changed\n")
    with pytest.raises(NotPrepared, match="has changed since"):
        Kept(tmp_path / "platform").keep(preparation)
    assert list((tmp_path / "platform" / "code").iterdir()) == []


def test_what_is_not_in_the_targets_folder_stays_where_it_is(tmp_path, app):
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text("z = 1\n")
    preparation = prepared(elsewhere)
    other = msgspec.structs.replace(preparation, description=description(target=f"{app}:f"))
    kept = Kept(tmp_path / "platform")
    assert kept.keep(other).code is None
    elsewhere.write_text("changed\n")
    assert "has changed" in kept.missing(other)


def test_a_snapshot_outlives_its_store(tmp_path, app):
    folder = tmp_path / "store" / "f" / "0123"
    (folder / "models").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "models" / "a.onnx").write_text("weights")
    preparation = msgspec.structs.replace(prepared(app), snapshot=str(folder), digest="blake3:0123456789abcdef0123")
    found = Kept(tmp_path / "platform").keep(preparation)
    (folder / "models" / "a.onnx").unlink()
    assert (Path(found.snapshot) / "models" / "a.onnx").read_text() == "weights"
    remote = msgspec.structs.replace(preparation, snapshot="s3://bucket/f@0123")
    assert Kept(tmp_path / "platform").keep(remote).snapshot == "s3://bucket/f@0123"


def test_what_no_revision_runs_from_is_removed(tmp_path, app):
    kept = Kept(tmp_path / "platform")
    first = kept.keep(prepared(app))
    app.write_text("other\n")
    second = kept.keep(prepared(app))
    (tmp_path / "platform" / "code" / ".staging-dead").mkdir()
    kept.keep_only([second])
    assert [str(path) for path in (tmp_path / "platform" / "code").iterdir()] == [str(Path(second.code).parent)]
    assert "is gone" in kept.missing(first)
    assert kept.missing(second) is None


def test_bundles_are_whole_or_not_there_and_stay_while_they_are_taken(tmp_path):
    kept = Kept(tmp_path / "platform")

    def copy(folder):
        (folder / "app.py").write_text("x = 1\n")
        (folder / "bundle.json").write_text('{"format": 1, "target": "app.py"}')

    folder = kept.take_bundle(copy)
    assert kept.take_bundle(copy) == folder
    kept.keep_only([])
    assert (folder / "app.py").is_file()
    kept.release_bundle(folder)
    kept.release_bundle(folder)
    kept.keep_only([])
    assert list((tmp_path / "platform" / "bundles").iterdir()) == []
    with pytest.raises(OSError, match="cut"):
        kept.take_bundle(lambda folder: (_ for _ in ()).throw(OSError("cut")))
    assert list((tmp_path / "platform" / "bundles").iterdir()) == []


def test_a_bundles_code_runs_from_where_it_is(tmp_path):
    kept = Kept(tmp_path / "platform")
    folder = kept.take_bundle(
        lambda folder: [
            (folder / "app.py").write_text(textwrap.dedent("x = 1\n")),
            (folder / "bundle.json").write_text('{"format": 1, "target": "app.py"}'),
        ]
    )
    found = kept.keep(prepared(folder / "app.py"))
    kept.release_bundle(folder)
    assert found.code == f"{folder}/app.py:f"
    kept.keep_only([found])
    assert folder.is_dir()
