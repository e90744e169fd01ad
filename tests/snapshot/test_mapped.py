import mmap
import os
import sys
from pathlib import Path

import pytest

from snapshot import mapped

MAPS = b"""\
55d0c0a00000-55d0c0a02000 r--p 00000000 fe:01 1311 /usr/bin/cat
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
7f0000200000-7f0000400000 r--p 00000000 103:02 42 /store/embed/0123/tensors 1.safetensors (deleted)
7f0000400000-7f0000600000 r--p 00000000 fe:01 43 /with\\012line
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
"""


def test_a_memory_map_is_read_by_its_columns() -> None:
    assert mapped.parse_maps(MAPS.splitlines()) == {
        ((os.makedev(0xFE, 1), 1311), b"/usr/bin/cat"),
        ((os.makedev(0x103, 2), 42), b"/store/embed/0123/tensors 1.safetensors"),
        ((os.makedev(0xFE, 1), 43), b"/with\nline"),
    }


def test_what_this_process_maps_is_seen_without_a_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * mmap.PAGESIZE)
    stat = path.stat()
    file = (stat.st_dev, stat.st_ino)
    assert mapped.look().holder_of(tmp_path, [file]) is None
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ):
        seen = mapped.look()
        assert seen.by_id[file] == os.getpid()
        assert seen.holder_of(tmp_path / "elsewhere", [file]) == os.getpid()
        assert seen.holder_of(tmp_path, []) == os.getpid(), "by its path, where ids are of no use"
        assert seen.holder_of(tmp_path / "elsewhere", []) is None
    assert mapped.look().holder_of(tmp_path, [file]) is None


def test_the_interpreter_itself_is_mapped() -> None:
    stat = os.stat(sys.executable)
    assert mapped.look().holder_of(Path("/nowhere"), [(stat.st_dev, stat.st_ino)]) is not None


def test_processes_that_cannot_be_looked_into_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, maps in (("1", MAPS), ("23", MAPS), ("self", MAPS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "maps").write_bytes(maps)
    (tmp_path / "45").mkdir()  # has ended: its folder is there and nothing in it
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.parent.name == "23":
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)  # the tests may run as root, whom nothing is refused
    seen = mapped.look(tmp_path)
    assert set(seen.by_id.values()) == {1}
    assert seen.num_unseen == 1
