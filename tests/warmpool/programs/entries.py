"""What the workers of these tests run. Each answers on the descriptor `out`."""

import asyncio
import atexit
import ctypes
import gc
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warmpool.threads import ONE_THREAD


def answer(fds: dict[str, int], value: Any) -> None:
    with os.fdopen(fds["out"], "w") as out:
        json.dump(value, out)


def echo(payload: bytes, fds: dict[str, int]) -> None:
    with os.fdopen(fds["out"], "wb") as out:
        out.write(payload)


def digest(payload: bytes, fds: dict[str, int]) -> None:
    answer(fds, [len(payload), hashlib.sha256(payload).hexdigest()])


def describe(payload: bytes, fds: dict[str, int]) -> None:
    answer(
        fds,
        {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "group": os.getpgrp(),
            "fds": {
                fd: os.readlink(f"/proc/self/fd/{fd}") for fd in map(int, os.listdir("/proc/self/fd")) if _open(fd)
            },
            "given": fds,
            "threads": threading.active_count(),
            "handlers": {int(number): _name(signal.getsignal(number)) for number in signal.valid_signals()},
            "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "wakeup_fd": signal.set_wakeup_fd(-1),
            "policy": type(asyncio.get_event_loop_policy()).__module__,
            "gc": gc.isenabled(),
            "cwd": os.getcwd(),
            "env": dict(os.environ),
            "path": sys.path,
            "argv": sys.argv,
        },
    )


def _name(handler: Any) -> str:
    return str(getattr(handler, "name", None) or handler.__name__)


def _open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def randoms(payload: bytes, fds: dict[str, int]) -> None:
    """Draw from each global generator; a payload is the seed to use first."""
    import numpy
    import torch

    if payload:
        random.seed(int(payload))
        numpy.random.seed(int(payload))
        torch.manual_seed(int(payload))
    answer(fds, [random.random(), float(numpy.random.random()), float(torch.rand(1, dtype=torch.float64))])


def thread_counts(payload: bytes, fds: dict[str, int]) -> None:
    """Tell how many threads each library would use, and how many torch does use outside the main thread."""
    import threadpoolctl
    import torch

    counts = {"torch": torch.get_num_threads()}
    for library in threadpoolctl.threadpool_info():
        counts[library["internal_api"]] = library["num_threads"]
    with ThreadPoolExecutor(1) as executor:
        counts["torch on another thread"] = executor.submit(_torch_threads_in_use).result()
    answer(fds, counts | {name: value for name, value in os.environ.items() if name in ONE_THREAD})


def _torch_threads_in_use() -> int:
    import torch

    before = _num_threads()
    torch.ones(2_000_000).add_(1).exp_()
    return _num_threads() - before + 1


def _num_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def parallel(payload: bytes, fds: dict[str, int]) -> None:
    """FK-02: what hangs for ever in the child of a parent that had used its thread pools."""
    import numpy
    import torch

    assert torch.get_num_threads() == 2
    torch.ones(64_000, dtype=torch.float16).float().add_(1)
    torch.ones(512, 512) @ torch.ones(512, 512)
    numpy.ones((512, 512)) @ numpy.ones((512, 512))
    answer(fds, _num_threads())


def fail(payload: bytes, fds: dict[str, int]) -> None:
    raise LookupError(f"no such thing: {payload.decode()}")


def leave(payload: bytes, fds: dict[str, int]) -> None:
    sys.exit(int(payload))


def leave_with_words(payload: bytes, fds: dict[str, int]) -> None:
    sys.exit(payload.decode())


def return_status(payload: bytes, fds: dict[str, int]) -> int:
    return int(payload.rstrip(b"\0"))


def return_words(payload: bytes, fds: dict[str, int]) -> Any:
    return payload.decode()


def signal_self(payload: bytes, fds: dict[str, int]) -> None:
    os.kill(os.getpid(), int(payload))
    signal.pause()


def kill_group(payload: bytes, fds: dict[str, int]) -> None:
    os.kill(0, signal.SIGTERM)
    signal.pause()


def say(payload: bytes, fds: dict[str, int]) -> None:
    print(payload.decode())
    print(payload.decode(), file=sys.stderr)


def say_and_die(payload: bytes, fds: dict[str, int]) -> None:
    print(payload.decode())
    os.kill(os.getpid(), signal.SIGKILL)


def wait(payload: bytes, fds: dict[str, int]) -> None:
    os.write(fds["out"], b"up")
    signal.pause()


def start_children(payload: bytes, fds: dict[str, int]) -> None:
    """Have two children, one forked and one of another program, and wait."""
    forked = os.fork()
    if forked == 0:
        signal.pause()
    other = subprocess.Popen(["sleep", "1000"])
    os.write(fds["out"], json.dumps([forked, other.pid]).encode())
    signal.pause()


_FORSAKE = """
import subprocess
apart = {"start_new_session": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(["sleep", "1000"], **apart).pid)
"""


def start_daemons(payload: bytes, fds: dict[str, int]) -> None:
    """Have a child in a session of its own, and another one whose parent has ended, and wait."""
    apart = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    forsaken = subprocess.run([sys.executable, "-c", _FORSAKE], capture_output=True, check=True)
    os.write(fds["out"], json.dumps([apart.pid, int(forsaken.stdout)]).encode())
    signal.pause()


def hang(payload: bytes, fds: dict[str, int]) -> None:
    """Ignore what can be ignored, hold the interpreter's lock, and never come back from native code."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    os.write(fds["out"], b"up")
    ctypes.PyDLL(None).pause()


def at_exit(payload: bytes, fds: dict[str, int]) -> None:
    """Answer from an exit callback, and leave a folder for another one to remove."""
    mine = tempfile.TemporaryDirectory()
    kept.append(mine)
    atexit.register(answer, fds, mine.name)


kept: list[Any] = []
