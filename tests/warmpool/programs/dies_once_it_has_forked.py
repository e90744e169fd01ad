"""An import after which the zygote dies as soon as its first worker is there; the self-test is the fork before."""

import os
import signal

forks: list[int] = []


def count() -> None:
    forks.append(1)
    if len(forks) > 1:
        os.kill(os.getpid(), signal.SIGKILL)


os.register_at_fork(after_in_parent=count)
