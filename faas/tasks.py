"""Work done in a process of its own: what it is comes on standard input, what becomes of it comes back line by line.

`run` and `ahead` are the parent's side, `serve` the child's. A child reads one task, a JSON line, from standard input
and writes reports, one JSON line each, to the descriptor that the task names; standard output and error are those of
the code it runs. Each further line asks it where it stands; when its standard input ends, so has its parent, and it
ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from faas import users_errors
from faas.errors import FaasError, NotPrepared, named
from faas.slow_steps import SlowSteps
from warmpool import threads

Progress = Callable[[str], None]

STDERR = 2
"""Where what user code prints goes, by number: `sys.stderr` may be no file."""


class Step(msgspec.Struct, frozen=True, tag="step"):
    """Something begins, in words."""

    text: str


class Found(msgspec.Struct, frozen=True, tag="found"):
    """The target is loaded: the names of all its functions, and the one that is made ready."""

    siblings: tuple[str, ...]
    function: str


class Stands(msgspec.Struct, frozen=True, tag="stands"):
    """Where the work stands, since that was asked: at which line of the user's; empty where at none."""

    at: str


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The work failed: `message` for people, `traceback` of the user's code where it was that."""

    message: str
    traceback: str = ""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do; those of a module are made of this. Who starts the child says where its reports go."""

    report_fd: int = -1


Message = Step | Found | Stands | Failed
"""What any child may report; its outcome, which is last, is of the module's own."""

_T = TypeVar("_T", bound=Task)
_Outcome = TypeVar("_Outcome", bound=msgspec.Struct)
Report = Callable[[msgspec.Struct], None]


def serve(kind: type[_T], do: Callable[[_T, Report], msgspec.Struct]) -> int:
    """Do the task on standard input and report what comes of it last. Returns the exit status."""
    orders = _own_input()
    content = _line(orders)
    if not content:  # whoever started it ahead has no task for it
        return 0
    task = msgspec.json.decode(content, type=kind)
    os.set_inheritable(task.report_fd, False)
    writing = threading.Lock()

    def report(message: msgspec.Struct) -> None:
        with writing:
            os.write(task.report_fd, msgspec.json.encode(message) + b"\n")

    threading.Thread(target=_answer, args=(orders, report), name="faas-tasks", daemon=True).start()
    try:
        report(do(task, report))
    except FaasError as error:
        report(Failed(message=str(error)))
        return 1
    except Exception as error:
        trace = traceback.format_exc()
        report(Failed(message=named(error), traceback=trace))
        return 1
    return 0


def _own_input() -> int:
    """Return standard input as a descriptor of our own; to the code that is run it has ended."""
    orders = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return orders


def _line(descriptor: int) -> bytes:
    """Return what comes until a line ends, or all does; what was asked too early is white space after it."""
    content = b""
    while not content.endswith(b"\n") and (more := os.read(descriptor, 1 << 20)):
        content += more
    return content


def _answer(orders: int, report: Report) -> None:
    """Say where the main thread stands each time that is asked; end the process, with all it started, with its parent.

    By descriptor: a thread that waits in a file of Python's would keep the interpreter from ending.
    """
    main = threading.main_thread().ident or 0
    while os.read(orders, 1 << 10):
        report(Stands(users_errors.stands_at(sys._current_frames().get(main))))
    os.killpg(0, signal.SIGKILL)


class Waiting:
    """A process that has imported what its task takes, or is about to, and waits for one. Made by `ahead`."""

    def __init__(self, process: asyncio.subprocess.Process, reader: int, writer: int) -> None:
        self._process, self._reader, self._writer = process, reader, writer

    @property
    def is_waiting(self) -> bool:
        """Whether it can be given its task."""
        return self._reader >= 0

    async def run(
        self, task: Task, outcomes: msgspec.json.Decoder[Message | _Outcome], progress: Progress, *, what: str
    ) -> _Outcome:
        """Give it its one task and return what comes of it. Raises as `run` does."""
        process, reader, orders = self._process, self._reader, self._process.stdin
        self._reader = -1
        assert orders is not None
        orders.write(msgspec.json.encode(msgspec.structs.replace(task, report_fd=self._writer)) + b"\n")
        with SlowSteps(progress, ask=lambda: orders.write(b"\n")) as steps:
            last, found = await _reports(reader, outcomes, steps)
        status = await process.wait()
        of = () if found is None else (found.function, found.siblings)
        if isinstance(last, Failed):
            raise NotPrepared("\n".join(x for x in (last.message, last.traceback.rstrip()) if x), *of)
        if isinstance(last, Step):
            raise NotPrepared(f"the process that makes {what} ended with status {status} while {last.text}", *of)
        return last

    async def end(self) -> None:
        """End it, with all it started, unless it has ended."""
        if self.is_waiting:
            os.close(self._reader)
            self._reader = -1
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()


@contextlib.asynccontextmanager
async def ahead(module: str, *, python: str = sys.executable) -> AsyncIterator[Waiting]:
    """Start `python -m module` before its task is known: it does its imports meanwhile. It ends with the context."""
    waiting = await _start(module, python)
    try:
        yield waiting
    finally:
        await waiting.end()


async def run(
    module: str,
    task: Task,
    outcomes: msgspec.json.Decoder[Message | _Outcome],
    progress: Progress,
    *,
    what: str,
    python: str = sys.executable,
) -> _Outcome:
    """Run one task by `python -m module` and return what comes of it; it ends, with all it started, when cancelled.

    `outcomes` reads a report, which is a `Message` or the outcome. `what` says what the process is for, in words.

    Raises:
        NotPrepared: the task failed, or its process ended without a report.
    """
    async with ahead(module, python=python) as process:
        return await process.run(task, outcomes, progress, what=what)


async def _start(module: str, python: str) -> Waiting:
    reader, writer = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            "-P",  # no folder of the user may stand in for one of our packages
            "-m",
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=STDERR,
            pass_fds=(writer,),
            start_new_session=True,  # so that all it started can be ended with it
            env={**threads.ONE_THREAD, **os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return Waiting(process, reader, writer)


async def _reports(
    descriptor: int, outcomes: msgspec.json.Decoder[Message | _Outcome], steps: SlowSteps
) -> tuple[Step | Failed | _Outcome, Found | None]:
    """Return the last report, and what was found where the target was loaded."""
    last: Step | Failed | _Outcome = Step("starting")
    found: Found | None = None
    steps.wait("starting")
    stream = asyncio.StreamReader(limit=2**26)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        async for line in stream:
            report = outcomes.decode(line)
            if isinstance(report, Found):
                found = report
                continue
            if isinstance(report, Stands):
                steps.stands(report.at)
                continue
            last = report
            if isinstance(report, Step):
                steps.begin(report.text)
    finally:
        transport.close()
    return last, found
