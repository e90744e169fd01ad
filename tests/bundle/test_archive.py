from __future__ import annotations

import io
import json
import tarfile

import pytest
from blake3 import blake3

from faas.bundle import BadBundle, pack, read, unpack
from faas.bundle.manifest import Bundle, File, decode

FILES = {"code/app.py": b"x = 1\n", "code/aid/util.py": b"y = 2\n"}


def manifest(files: dict[str, bytes] = FILES, **changes: object) -> bytes:
    listed = {path: File(blake3(content).hexdigest(), len(content)) for path, content in files.items()}
    made = {"name": "f", "target": "app:f", "python": "3.11.2", "faas": "0.1.0", "files": listed, **changes}
    return Bundle(**made).encode()  # type: ignore[arg-type]


def write(folder, files: dict[str, bytes] = FILES, **changes: object) -> None:
    for path, content in {**files, "bundle.json": manifest(files, **changes)}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def archive(path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w") -> None:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_an_archive_gives_back_the_folder_and_is_equal_for_equal_bundles(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b")
    (tmp_path / "b" / "code" / "app.py").chmod(0o755)
    (tmp_path / "b" / "code" / "__pycache__").mkdir()
    pack(tmp_path / "a", tmp_path / "a.tar")
    pack(tmp_path / "b", tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    bundle = unpack(tmp_path / "a.tar", tmp_path / "c")
    assert bundle.digest == read(tmp_path / "a", here=False).digest
    assert (tmp_path / "c" / "code" / "aid" / "util.py").read_bytes() == b"y = 2\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


HOSTILE = {
    "a link": [(member("code/app.py", tarfile.SYMTYPE, "/etc/passwd"), b"")],
    "a hard link": [(member("code/app.py", tarfile.LNKTYPE, "bundle.json"), b"")],
    "a device": [(member("code/app.py", tarfile.CHRTYPE), b"")],
    "a way out": [(member("code/../../evil.py"), b"x = 1\n")],
    "an absolute path": [(member("/tmp/evil.py"), b"x = 1\n")],
    "what is not listed": [(member("code/other.py"), b"x = 1\n")],
    "more than is listed": [(member("code/app.py"), b"x = 1\n" * 1000)],
    "other bytes": [(member("code/app.py"), b"x = 2\n"), (member("code/aid/util.py"), b"y = 2\n")],
    "the same twice": [(member("code/app.py"), b"x = 1\n"), (member("code/app.py"), b"x = 1\n")],
    "too little": [(member("code/app.py"), b"x = 1\n")],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_archive_that_is_not_what_it_says_is_refused_and_leaves_nothing(tmp_path, what):
    archive(tmp_path / "x.tar", [(member("bundle.json"), manifest()), *HOSTILE[what]])
    with pytest.raises(BadBundle):
        unpack(tmp_path / "x.tar", tmp_path / "home" / "b")
    assert list((tmp_path / "home").iterdir()) == []
    assert not (tmp_path / "evil.py").exists()


def test_what_is_no_archive_of_a_bundle_is_refused(tmp_path):
    content = [(member("bundle.json"), manifest())]
    archive(tmp_path / "compressed.tar", content, "w:gz")
    archive(tmp_path / "other.tar", [(member("code/app.py"), b"x = 1\n"), *content])
    (tmp_path / "noise.tar").write_bytes(b"noise" * 500)
    (tmp_path / "empty.tar").write_bytes(b"")
    archive(tmp_path / "cut.tar", [*content, (member("code/app.py"), b"x" * 5000)])
    (tmp_path / "cut.tar").write_bytes((tmp_path / "cut.tar").read_bytes()[:3000])
    for name in ("compressed", "other", "noise", "empty", "cut"):
        with pytest.raises(BadBundle):
            unpack(tmp_path / f"{name}.tar", tmp_path / "b")
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("path", ["../x", "/x", "code/../x", "code//x", "./x", "code\\x", "bundle.json", "", "code/\0"])
def test_a_manifest_that_lists_what_does_not_lie_in_the_bundle_is_refused(path):
    with pytest.raises(BadBundle, match="no plain path"):
        decode(manifest({path: b""}))


def test_a_manifest_that_cannot_be_meant_is_refused():
    good = json.loads(manifest())
    for changes, why in [
        ({"format": 3}, "of format 3"),
        ({"format": "x"}, "format"),
        ({"target": "app"}, "MODULE:NAME"),
        ({"target": "../app:f"}, "MODULE:NAME"),
        ({"target": "a\nb:f"}, "MODULE:NAME"),
        ({"files": {"code/x": {"digest": "0", "num_bytes": 1 << 50}}}, "more than"),
        ({"files": {"code/x": {"digest": "0", "num_bytes": -1}}}, "no plain path"),
        ({"python": 3}, "python"),
    ]:
        with pytest.raises(BadBundle, match=why):
            decode(json.dumps({**good, **changes}).encode())
    with pytest.raises(BadBundle, match="is not read"):
        decode(b" " * (17 << 20))


def test_a_folder_that_is_not_what_it_says_is_refused(tmp_path):
    with pytest.raises(BadBundle, match="cannot be read"):
        read(tmp_path)
    write(tmp_path)
    read(tmp_path, here=False)
    (tmp_path / "code" / "app.py").write_bytes(b"x = 2\n")
    with pytest.raises(BadBundle, match="its digest is another"):
        read(tmp_path, here=False)
    (tmp_path / "code" / "app.py").unlink()
    with pytest.raises(BadBundle, match="is not there"):
        read(tmp_path, here=False)
    (tmp_path / "elsewhere").write_bytes(b"x = 1\n")
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner")
    (tmp_path / "inner" / "code" / "app.py").unlink()
    (tmp_path / "inner" / "code" / "app.py").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadBundle, match="no file of the bundle"):
        read(tmp_path / "inner", here=False)
