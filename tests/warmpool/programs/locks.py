"""Locks of every kind, taken and given back by the import, on the main thread and on one that has ended."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from entries import answer

LOCKS = {"lock": threading.Lock(), "rlock": threading.RLock(), "condition": threading.Condition()}
HANDLER = logging.StreamHandler()


def use_all() -> list[str]:
    for lock in LOCKS.values():
        assert lock.acquire(timeout=5)  # type: ignore[attr-defined]
        lock.release()  # type: ignore[attr-defined]
    assert HANDLER.lock is not None
    with HANDLER.lock:
        logging.getLogger("locks").debug("held")
    return list(LOCKS)


use_all()
user = threading.Thread(target=use_all)
user.start()
user.join()


def use(payload: bytes, fds: dict[str, int]) -> None:
    with ThreadPoolExecutor(2) as executor:
        answer(fds, [use_all(), *executor.map(lambda _: use_all(), range(2))])
