import gzip
import hashlib
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from deploy.image.errors import BadSource
from deploy.image.layer import File, input_digest, of_folder, of_root, of_tar, write
from deploy.image.layer_cache import LayerCache


def tree(root: Path, *, names: tuple[str, ...] = ("b", "a", "sub/c")) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}")
    return root


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {member.name: member for member in tar}


def test_the_same_files_give_the_same_bytes_whenever_and_in_whatever_order_they_were_made(tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one"), tree(tmp_path / "other", names=("sub/c", "a", "b"))
    os.utime(other / "a", (1, 1))
    (other / "b").chmod(0o600)
    first = write(of_folder(one, "/opt/x"), tmp_path / "1", created_by="test")
    second = write(reversed(list(of_folder(other, "/opt/x"))), tmp_path / "2", created_by="test")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert (first.digest, first.diff_id) == (second.digest, second.diff_id)


def test_both_digests_are_those_of_the_bytes(tmp_path: Path) -> None:
    made = write(of_folder(tree(tmp_path / "in"), "/opt/x"), tmp_path / "out", created_by="test")
    packed = made.path.read_bytes()
    assert made.digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert made.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(packed)).hexdigest()}"
    assert made.size_bytes == len(packed)
    assert packed[4:8] == b"\0\0\0\0"  # gzip's time
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize("change", ["content", "mode", "name", "link"])
def test_a_change_gives_other_bytes_and_another_input_digest(tmp_path: Path, change: str) -> None:
    root = tree(tmp_path / "in")
    (root / "link").symlink_to("a")
    before = write(of_folder(root, "/x"), tmp_path / "1", created_by="").digest, input_digest(of_folder(root, "/x"))
    if change == "content":
        (root / "a").write_text("content of A")
    elif change == "mode":
        (root / "a").chmod(0o755)
    elif change == "name":
        (root / "a").rename(root / "d")
    else:
        (root / "link").unlink()
        (root / "link").symlink_to("b")
    after = write(of_folder(root, "/x"), tmp_path / "2", created_by="").digest, input_digest(of_folder(root, "/x"))
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_files_are_roots_and_readable_and_executable_where_they_were(tmp_path: Path) -> None:
    root = tree(tmp_path / "in")
    (root / "a").chmod(0o700)
    (root / "b").chmod(0o400)
    (root / "link").symlink_to("sub/c")
    found = members(write(of_folder(root, "/opt/x"), tmp_path / "out", created_by="").path)
    assert {name: member.mode for name, member in found.items()} == {
        "opt/x": 0o755,
        "opt/x/a": 0o755,
        "opt/x/b": 0o644,
        "opt/x/link": 0o777,
        "opt/x/sub": 0o755,
        "opt/x/sub/c": 0o644,
    }
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in found.values()} == {
        (0, 0, "", 315532800)
    }
    assert found["opt/x/link"].linkname == "sub/c"


def test_folders_above_are_left_to_the_base(tmp_path: Path) -> None:
    found = members(write(of_folder(tree(tmp_path / "in"), "/tmp/x"), tmp_path / "out", created_by="").path)
    assert "tmp" not in found  # the base's has other rights


def test_long_names_and_names_of_any_bytes_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "in"
    name = "ü" * 60 + "x" * 60
    tree(root, names=(f"{'d' * 120}/{'e' * 120}/{name}",))
    os.mkdir(os.fsencode(root) + b"/\xff")
    with tarfile.open(write(of_folder(root, "/x"), tmp_path / "out", created_by="").path) as tar:
        names = tar.getnames()
    assert f"x/{'d' * 120}/{'e' * 120}/{name}" in names
    assert "x/\udcff" in names


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a//b", "/", "/a/.", "/a/.wh.b", "/a\0b"])
def test_places_that_are_none_in_an_image_are_refused(path: str) -> None:
    with pytest.raises(BadSource):
        File(path, b"")


def test_two_files_cannot_have_one_path(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="two files are to be /a"):
        write([File("/a", b"1"), File("/a", b"2")], tmp_path / "out", created_by="")
    assert not list(tmp_path.iterdir())


def test_a_socket_in_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
        with pytest.raises(BadSource, match="a device, a pipe or a socket"):
            list(of_folder(tmp_path / "in", "/x"))


def test_a_file_that_cannot_be_read_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="nowhere"):
        write([File("/a", tmp_path / "nowhere")], tmp_path / "out", created_by="")
    assert not list(tmp_path.iterdir())


def test_a_root_keeps_modes_and_hard_links_and_leaves_out_what_a_runtime_brings(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", names=("bin/tool", "proc/1/status", "tmp/x", "etc/z"))
    (root / "tmp").chmod(0o1777)
    (root / "bin/tool").chmod(0o4755)
    os.link(root / "bin/tool", root / "bin/alias")
    os.mkfifo(root / "etc/pipe")
    found = members(write(of_root(root), tmp_path / "out", created_by="").path)
    assert sorted(found) == ["bin", "bin/alias", "bin/tool", "etc", "etc/z", "proc", "tmp", "tmp/x"]
    assert (found["tmp"].mode, found["bin/alias"].mode) == (0o1777, 0o4755)
    assert (found["bin/tool"].type, found["bin/tool"].linkname) == (tarfile.LNKTYPE, "bin/alias")


@pytest.mark.parametrize("packed", ["tar", "tar.gz", "tar.xz"])
def test_a_tar_is_taken_as_it_is(tmp_path: Path, packed: str) -> None:
    source = tmp_path / f"root.{packed}"
    with tarfile.open(source, f"w:{packed[4:]}") as tar:
        info = tarfile.TarInfo("etc/name")
        info.size, info.mtime = 4, 1_700_000_000
        tar.addfile(info, io.BytesIO(b"root"))
    made = of_tar(source, tmp_path / "out", created_by="")
    assert members(made.path)["etc/name"].mtime == 1_700_000_000
    assert made.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(made.path.read_bytes())).hexdigest()}"


@pytest.mark.parametrize("content", [b"", b"no tar at all", b"\x1f\x8b broken", b"\x28\xb5\x2f\xfd zstd", b"x" * 2048])
def test_what_is_no_tar_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "root.tar").write_bytes(content)
    with pytest.raises(BadSource):
        of_tar(tmp_path / "root.tar", tmp_path / "out", created_by="")
    assert not (tmp_path / "out").exists()


def test_a_layer_that_was_made_is_not_made_again(tmp_path: Path) -> None:
    cache, root = LayerCache(tmp_path / "cache"), tree(tmp_path / "in")
    first = cache.of_files(of_folder(root, "/x"), created_by="one")
    first.path.chmod(0o400)
    assert cache.of_files(of_folder(root, "/x"), created_by="one") == first
    assert cache.of_files(of_folder(root, "/x"), created_by="other").created_by == "other"


@pytest.mark.parametrize("damage", ["shorter", "no record", "bad record", "gone"])
def test_a_layer_that_is_damaged_in_the_cache_is_made_again(tmp_path: Path, damage: str) -> None:
    cache, root = LayerCache(tmp_path / "cache"), tree(tmp_path / "in")
    first = cache.of_files(of_folder(root, "/x"), created_by="")
    whole, record = first.path.read_bytes(), next((tmp_path / "cache").glob("*.json"))
    if damage == "shorter":
        first.path.write_bytes(whole[:-1])
    elif damage == "no record":
        record.unlink()
    elif damage == "bad record":
        record.write_text('{"digest": 1}')
    else:
        first.path.unlink()
    assert cache.of_files(of_folder(root, "/x"), created_by="") == first
    assert first.path.read_bytes() == whole
