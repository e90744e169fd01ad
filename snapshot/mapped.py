"""Which files the processes of this machine have mapped."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

FileId = tuple[int, int]
"""Device and inode."""

_PROCESS = re.compile(r"[1-9][0-9]*")
_DELETED = b" (deleted)"


class Mapped(msgspec.Struct, frozen=True):
    """What is mapped, and by which process (one of them).

    by_path: beside the files' ids, since on some file systems (overlays, subvolumes) the kernel tells of others than
        a caller of stat sees
    num_unseen: processes, of other users, that could not be looked into
    """

    by_id: Mapping[FileId, int]
    by_path: Mapping[bytes, int]
    num_unseen: int

    def holder_of(self, folder: Path, files: Iterable[FileId]) -> int | None:
        """The id of a process that maps one of these files, or one that it opened in this folder."""
        for file in files:
            if process := self.by_id.get(file):
                return process
        inside = os.fsencode(folder) + b"/"
        return next((process for path, process in self.by_path.items() if path.startswith(inside)), None)


def look(proc: Path = Path("/proc")) -> Mapped:
    """Look into every process that this one may look into."""
    by_id: dict[FileId, int] = {}
    by_path: dict[bytes, int] = {}
    num_unseen = 0
    for name in filter(_PROCESS.fullmatch, os.listdir(proc)):
        try:
            maps = (proc / name / "maps").read_bytes()
        except PermissionError:
            num_unseen += 1
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        else:
            for file, path in parse_maps(maps.splitlines()):
                by_id[file] = by_path[path] = int(name)
    return Mapped(by_id, by_path, num_unseen)


def parse_maps(lines: Iterable[bytes]) -> set[tuple[FileId, bytes]]:
    """The files in a process's memory map, each with the path it was opened by. Lines are as in proc_pid_maps(5)."""
    found = set()
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[4] != b"0":
            major, _, minor = fields[3].partition(b":")
            path = fields[5].removesuffix(_DELETED).replace(b"\\012", b"\n")
            found.add(((os.makedev(int(major, 16), int(minor, 16)), int(fields[4])), path))
    return found
