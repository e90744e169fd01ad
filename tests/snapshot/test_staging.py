import errno
import os
from pathlib import Path

import pytest

from snapshot.errors import NoSpaceError
from snapshot.staging import scratch_folder, staged_folder


def test_what_goes_wrong_in_a_scratch_folder_is_told(tmp_path: Path) -> None:
    def use() -> None:
        with scratch_folder(tmp_path) as scratch:
            (scratch / "nothing").read_bytes()

    with pytest.raises(FileNotFoundError, match="nothing"):
        use()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_folder_and_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with staged_folder(tmp_path / "s"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(NoSpaceError, match=f"{tmp_path} has no room"):
        fill()
    assert list(tmp_path.iterdir()) == []
