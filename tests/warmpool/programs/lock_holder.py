"""An import whose thread holds a lock for good: in a forked child nobody would ever give it back."""

import threading

LOCK = threading.Lock()
held = threading.Event()


def hold() -> None:
    with LOCK:
        held.set()
        threading.Event().wait()


threading.Thread(target=hold, daemon=True, name="holder").start()
held.wait()
