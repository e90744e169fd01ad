"""Native code that prints: when it is imported, and in workers."""

import ctypes

_libc = ctypes.CDLL(None)
_libc.printf(b"as it was imported\n")


def say(payload: bytes, fds: dict[str, int]) -> None:
    _libc.printf(b"%s\n", payload)
