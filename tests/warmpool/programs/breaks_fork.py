"""What a machine does that has no process left."""

import errno
import os


def fork() -> int:
    raise BlockingIOError(errno.EAGAIN, "no process left")


os.fork = fork
