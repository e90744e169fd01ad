from pathlib import Path

import pytest

from snapshot.staging import scratch_folder


def test_what_goes_wrong_in_a_scratch_folder_is_told(tmp_path: Path) -> None:
    def use() -> None:
        with scratch_folder(tmp_path) as scratch:
            (scratch / "nothing").read_bytes()

    with pytest.raises(FileNotFoundError, match="nothing"):
        use()
    assert list(tmp_path.iterdir()) == []
