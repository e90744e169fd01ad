"""What hot zygotes preload in these tests, and workers that tell what they find."""

import asyncio
import json
import os
import socket
import threading

HELD: dict[str, object] = {}


def keep(payload: bytes) -> None:
    HELD["payload"] = payload.decode()
    HELD["made_in"] = os.getpid()
    HELD["threads"] = os.environ["OMP_NUM_THREADS"]


def choose_threads(payload: bytes) -> None:
    """Do what modules do at their top."""
    os.environ["OMP_NUM_THREADS"] = "3"
    os.environ["TOKENIZERS_PARALLELISM"] = "true"


def choose_torch_threads(payload: bytes) -> None:
    import torch

    torch.set_num_threads(int(payload))
    torch.ones(512, 512) @ torch.ones(512, 512)


def fail(payload: bytes) -> None:
    raise ValueError("this cannot be preloaded")


def start_a_thread(payload: bytes) -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def leave(payload: bytes) -> None:
    os._exit(4)


def tell(payload: bytes, fds: dict[str, int]) -> None:
    found = HELD | {"pid": os.getpid(), "parent": os.getppid(), "threads_here": os.environ.get("OMP_NUM_THREADS")}
    found["tokenizers"] = os.environ.get("TOKENIZERS_PARALLELISM")
    with os.fdopen(fds["out"], "w") as out:
        json.dump(found, out)


def take_memory(payload: bytes) -> None:
    HELD["much"] = bytearray(b"x") * int(payload)


def make_a_loop(payload: bytes) -> None:
    HELD["loop"] = asyncio.new_event_loop()


def open_a_connection(payload: bytes) -> None:
    """Connect to the server on the socket `payload`, as a client of a database does that is made with its module."""
    HELD["connection"] = connection = socket.socket(socket.AF_UNIX)
    connection.connect(payload.decode())


def open_a_pipe(payload: bytes) -> None:
    HELD["pipe"] = os.pipe()


def touch_cuda(payload: bytes) -> None:
    import torch

    torch.cuda.init()


def compute(payload: bytes) -> None:
    """Do in a zygote what a rehearsed answer does there: large operations, on its one thread."""
    import numpy
    import torch

    torch.ones(64_000, dtype=torch.float16).float().add_(1)
    torch.ones(512, 512) @ torch.ones(512, 512)
    numpy.ones((512, 512)) @ numpy.ones((512, 512))
