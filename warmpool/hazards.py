"""Why this process must not be forked now, if there is a reason."""

import os
import sys
import threading
from collections.abc import Collection


def before_fork() -> str | None:
    """Return why a fork of this process would not be safe now, or None. Asked before every fork; imports nothing."""
    return _threads() or _cuda()


def after_imports(opened_by_imports: Collection[int]) -> str | None:
    """Return what the imports did that no later look at this process would show, or None."""
    if "/dev/nvidia-uvm" in _targets(
        opened_by_imports
    ):  # opened by the CUDA driver's start; asking NVML for a count does not
        return "an import touched CUDA (it opened /dev/nvidia-uvm), and a CUDA context cannot be forked"
    return _queues()


def after_preload(opened: Collection[int]) -> str | None:
    """Return what a preload did that a worker could not go on with, though it can do it anew for itself, or None."""
    targets = _targets(opened)
    if "anon_inode:[eventpoll]" in targets:
        return (
            "the code makes an event loop when it is loaded, and workers cannot go on with one that was forked: each "
            "loads the code for itself; to make the loop when it is first used saves them that"
        )
    if any(target.startswith(("socket:", "pipe:")) for target in targets):
        return (
            "the code opens a connection or a pipe when it is loaded, and workers cannot share it: each loads the code "
            "for itself; to open it when it is first used saves them that"
        )
    return None


def _targets(fds: Collection[int]) -> list[str]:
    return [os.readlink(f"/proc/self/fd/{fd}") for fd in fds]


def _queues() -> str | None:
    """Queues between processes, as pools of processes have: the locks of one are shared by all that are forked."""
    queues = sys.modules.get("multiprocessing.queues")
    if queues is None:
        return None
    if not any(
        isinstance(one, queues.Queue) for one in sys.modules["multiprocessing.util"]._afterfork_registry.values()
    ):
        return None
    return (
        "an import made a multiprocessing.Queue, or a ProcessPoolExecutor, which has one, and workers would share it: "
        "make it in setup(), or when it is first used"
    )


def _threads() -> str | None:
    with open("/proc/self/status") as status:
        count = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    if count == 1:
        return None
    named = ", ".join(sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread()))
    return f"the zygote has {count} threads and must have 1; those of Python: {named or 'none'}"


def _cuda() -> str | None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_initialized = getattr(cuda, "is_initialized", None)
    if is_initialized is None or not is_initialized():
        return None
    return "an import initialised CUDA through torch, and a CUDA context cannot be forked"
