"""A device whose context belongs to one process and comes with a thread, as CUDA's does; it takes its time."""

import os
import threading

from entries import answer

CONTEXT: dict[str, object] = {}


def create(payload: bytes) -> None:
    if payload:  # a pipe that says when the driver is done, so that tests decide
        with open(payload.decode(), "rb") as slow:
            slow.read()
    threading.Thread(target=threading.Event().wait, daemon=True, name="driver").start()
    CONTEXT["pid"] = os.getpid()


def fail(payload: bytes) -> None:
    raise RuntimeError("no such device")


def use(payload: bytes, fds: dict[str, int]) -> None:
    answer(fds, {"pid": os.getpid(), "context": CONTEXT.get("pid")})
