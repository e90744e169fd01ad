"""An import after which the zygote itself dies when it forks its first worker; the self-test is the fork before."""

import os
import signal

forks: list[int] = []


def count() -> None:
    forks.append(1)
    if len(forks) > 1:
        os.kill(os.getpid(), signal.SIGKILL)


os.register_at_fork(before=count)
