"""A module that knows the process that imported it."""

import os

from entries import answer

IMPORTED_IN = os.getpid()


def tell_where(payload: bytes, fds: dict[str, int]) -> None:
    answer(fds, IMPORTED_IN)
