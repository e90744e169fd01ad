"""Python's garbage collector, paused."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_collection() -> Iterator[None]:
    """Collect nothing while the block runs, which makes many objects and no garbage: an import, or a thaw.

    A collection in the middle would only cost time. Of several such blocks at once, the pause ends with the first.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
