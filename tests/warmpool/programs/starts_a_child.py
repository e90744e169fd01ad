"""An import that starts another program, and a worker that tells which process that is."""

import subprocess

from entries import answer

child = subprocess.Popen(["sleep", "1000"])


def tell(payload: bytes, fds: dict[str, int]) -> None:
    answer(fds, child.pid)
