import msgspec
import pytest

from faas.errors import PlatformError
from faas.platform.revisions import share, tag
from faas.platform.state import State
from tests.platform.test_revisions import all_to, deployed


def test_what_is_written_is_read_again(tmp_path):
    state, found = State(tmp_path / "platform"), all_to(deployed("a", "b"), 1)
    assert list(state.read()) == []
    state.write(found)
    assert list(State(tmp_path / "platform").read()) == [found]
    state.remove("f")
    state.remove("f")
    assert list(state.read()) == []


def test_shares_and_tags_lead_to_the_same_revisions_when_a_new_version_gives_them_other_ids(tmp_path):
    first, second = deployed("a", "b").deployments
    found = tag(share(deployed("a", "b"), {first.id: 10, second.id: 90}), {"old": first.id})
    State(tmp_path).write(found)
    path = tmp_path / "f.json"
    for number, one in enumerate((first, second)):
        path.write_bytes(path.read_bytes().replace(one.id.encode(), b"former-%d" % number))
    assert list(State(tmp_path).read()) == [found]


def test_shares_that_lead_nowhere_are_left_to_the_others(tmp_path):
    first, second = deployed("a", "b").deployments
    found = share(deployed("a", "b"), {first.id: 10, second.id: 90})
    State(tmp_path).write(found)
    path = tmp_path / "f.json"
    written = msgspec.json.decode(path.read_bytes())
    written["ids"] = []
    written["revisions"]["traffic"][0]["revision"] = "nowhere"
    path.write_bytes(msgspec.json.encode(written))
    (read,) = State(tmp_path).read()
    assert [(one.revision, one.percent) for one in read.traffic] == [(second.id, 100)]


def test_what_cannot_be_read_is_told_and_keeps_nothing_else_from_being_read(tmp_path):
    state, found = State(tmp_path), deployed("a")
    state.write(found)
    good = (tmp_path / "f.json").read_bytes()
    (tmp_path / "cut.json").write_bytes(good[:-10])
    (tmp_path / "other.json").write_bytes(good)
    (tmp_path / "newer.json").write_bytes(good.replace(b'"format":1', b'"format":2', 1))
    told = list(state.read())
    assert [one for one in told if not isinstance(one, str)] == [found]
    assert sorted(one.rpartition("/")[2].partition(" ")[0] for one in told if isinstance(one, str)) == [
        "cut.json",
        "newer.json",
        "other.json",
    ]


def test_a_write_that_was_cut_short_changes_nothing(tmp_path):
    state, found = State(tmp_path), deployed("a")
    state.write(found)
    (tmp_path / "f.tmp").write_text("half")
    assert list(state.read()) == [found]
    assert not (tmp_path / "f.tmp").exists()


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PlatformError, match="cannot write"):
        State(tmp_path / "file").write(deployed("a"))
