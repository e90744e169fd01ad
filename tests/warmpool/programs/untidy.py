"""An import that leaves everything behind that an import can leave behind."""

import asyncio
import atexit
import os
import signal
import socket
import tempfile
from pathlib import Path

import uvloop

atexit.register(lambda: Path(os.environ["EXIT_FILE"]).write_text("an exit callback of the zygote ran"))
folder = tempfile.TemporaryDirectory()

ours, theirs = socket.socketpair()
theirs.setblocking(False)
signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

words = tempfile.TemporaryFile()  # noqa: SIM115 - it is to stay open
words.write(b"first\nsecond\n")
words.flush()
os.lseek(words.fileno(), len("first\n"), os.SEEK_SET)


def read_on(payload: bytes, fds: dict[str, int]) -> None:
    """Read what is left of the file, a few bytes at a time, in step with the siblings."""
    text = b""
    while more := os.read(words.fileno(), 2):
        text += more
        os.sched_yield()
    os.write(fds["out"], text)


def use_socket(payload: bytes, fds: dict[str, int]) -> None:
    """Tell whether the socket leads anywhere, and whether its number was free for another file."""
    try:
        ours.send(b"hello")
        leads_somewhere = True
    except OSError:
        leads_somewhere = False
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
    os.write(fds["out"], f"{leads_somewhere} {ours.fileno() in opened}".encode())


def tell_folder(payload: bytes, fds: dict[str, int]) -> None:
    os.write(fds["out"], folder.name.encode())
