"""An import that hangs the first worker as it is forked; the self-test is the fork before."""

import os

forks: list[int] = []
reader, writer = os.pipe()


def hang() -> None:
    if len(forks) == 2:
        os.read(reader, 1)  # nobody writes


os.register_at_fork(before=lambda: forks.append(1), after_in_child=hang)
