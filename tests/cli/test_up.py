"""`faas up` and `faas down` with a real platform, and functions called on it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from faas import address, settings
from faas.cli.up import say
from faas.errors import PlatformError, RemoteError
from faas.platform import main
from faas.platform.home import alone
from tests.cli.conftest import HELLO, Faas
from tests.cli.platform import coming_up, record
from tests.cli.process import Running, running

KINDS = """
from collections.abc import AsyncIterator

from faas import Batching, Context, Scaling, inference_function


@inference_function(batching=Batching(max_batch_size=8))
def double(numbers: list[int]) -> list[int | Exception]:
    print("doubling", sorted(numbers), flush=True)
    return [2 * n if n >= 0 else ValueError("a negative number") for n in numbers]


@inference_function
async def count(n: int, context: Context) -> AsyncIterator[dict]:
    for i in range(n):
        yield {"i": i}


@inference_function(scaling=Scaling(max_instances=1))
async def total(numbers: list[int]) -> int:
    return sum(await double.amap(numbers))
"""

HELD = """
from pathlib import Path

import numpy as np

from faas import inference_function


@inference_function
class Held:
    def setup(self):
        self.numbers = np.arange(100_000)

    def predict(self, n: int) -> tuple[int, bool]:
        return int(self.numbers[n]), ".safetensors" in Path("/proc/self/maps").read_text()
"""


@dataclass(frozen=True)
class Up:
    """A platform that runs, its home, and the folder of the files that it serves."""

    running: Running
    home: Path
    folder: Path


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    (folder / "hello_up.py").write_text(HELLO)
    (folder / "kinds_up.py").write_text(KINDS)
    before = {name: os.environ.get(name) for name in ("FAAS_HOME", "FAAS_URL")}
    os.environ["FAAS_HOME"] = str(folder / "home")
    os.environ.pop("FAAS_URL", None)
    try:
        targets = (str(folder / "hello_up.py"), str(folder / "kinds_up.py"))
        with running("up", *targets, "--port", "0") as up:
            urls = [up.wait_for(r" is at (http://\S+)")[1] for _ in range(4)]
            httpx.post(urls[0], json={"name": "first"}, trust_env=False, timeout=60)
            yield Up(up, folder / "home", folder)
            assert up.end(signal.SIGTERM) == 0
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture
def up(platform: Up, monkeypatch: pytest.MonkeyPatch) -> Up:
    monkeypatch.setenv("FAAS_HOME", str(platform.home))
    monkeypatch.syspath_prepend(platform.folder)
    return platform


@pytest.mark.slow
def test_invoke_finds_it_and_shows_that_the_start_was_cold_and_then_is_not(faas: Faas, up: Up) -> None:
    assert faas("scale", "hello", "0").out == "hello: 0 of 0 ready\n"
    cold = faas("invoke", "hello", "-d", '{"name": "Ada"}', "-i")
    assert (cold.code, cold.out) == (0, '"Hello, Ada!"\n')
    assert "x-cold-start: 1\n" in cold.err
    assert "x-cold-start: 0\n" in faas("invoke", "hello", "-d", '{"name": "Ada"}', "-i").err
    assert faas("scale", "hello", "0").out == "hello: 0 of 0 ready\n"


@pytest.mark.slow
def test_invoke_shows_each_event_of_a_stream(faas: Faas, up: Up) -> None:
    assert faas("invoke", "count", "-d", "2", "--stream").out == '{"i":0}\n{"i":1}\n'
    assert faas("invoke", "count", "-d", "2").out == '[{"i":0},{"i":1}]\n'


@pytest.mark.slow
def test_invoke_tells_wrong_input_and_an_unknown_function(faas: Faas, up: Up) -> None:
    wrong = faas("invoke", "hello", "-d", '{"nmae": 1}')
    assert wrong.code == 2
    assert "unknown field 'nmae' (did you mean 'name'?)" in wrong.err
    unknown = faas("invoke", "helo", "-d", "1")
    assert unknown.code == 2
    assert "(did you mean 'hello'?)" in unknown.err


@pytest.mark.slow
def test_ps_and_list_show_what_there_is(faas: Faas, up: Up) -> None:
    faas("invoke", "hello", "-d", '{"name": "Ada"}')
    assert {row["name"] for row in json.loads(faas("list", "--json").out)} == {"hello", "double", "count", "total"}
    assert "hello" in faas("list").out
    rows = [row for row in json.loads(faas("ps", "--json").out) if row["function"] == "hello"]
    assert [row["state"] for row in rows] == ["ready"]
    assert rows[0]["id"] in faas("ps").out


@pytest.mark.slow
def test_logs_show_what_a_function_printed(faas: Faas, up: Up) -> None:
    faas("invoke", "double", "-d", "77")
    assert "doubling [77]\n" in faas("logs", "double").out
    with running("logs", "double", "-f", "-n", "1", merged=True) as following:
        following.wait_for("doubling")
        faas("invoke", "double", "-d", "78")
        following.wait_for(r"doubling \[78\]")
        assert following.end(signal.SIGINT) == 0


@pytest.mark.slow
def test_a_program_calls_functions_by_their_objects(up: Up) -> None:
    kinds, hello_up = importlib.import_module("kinds_up"), importlib.import_module("hello_up")
    assert hello_up.hello.remote(hello_up.Greeting("Bea")) == "Hello, Bea!"
    assert kinds.double.map(range(20)) == [2 * n for n in range(20)]
    assert kinds.double.spawn(5).get(60) == 10
    assert list(kinds.count.remote(3)) == [{"i": 0}, {"i": 1}, {"i": 2}]

    async def use() -> tuple[int, list[int]]:
        return await kinds.double.aremote(4), await kinds.double.amap([1, 2])

    assert asyncio.run(use()) == (8, [2, 4])
    with pytest.raises(RemoteError, match="double answered 422: ValueError: a negative number") as caught:
        kinds.double.remote(-1)
    assert caught.value.status == 422


@pytest.mark.slow
def test_a_function_calls_another_from_inside_the_platform(faas: Faas, up: Up) -> None:
    assert faas("invoke", "total", "-d", '{"numbers": [1, 2, 3]}').out == "12\n"


@pytest.mark.slow
def test_scale_beyond_the_most_is_told(faas: Faas, up: Up) -> None:
    outcome = faas("scale", "total", "9")
    assert outcome.code == 0
    assert outcome.out.endswith(" of 1 ready\n")
    assert outcome.err == "total has at most 1, as its max_instances says: not 9\n"


@pytest.mark.slow
def test_a_second_platform_is_refused_with_the_first_ones_process(faas: Faas, up: Up) -> None:
    outcome = faas("up", str(up.folder / "hello_up.py"), "--port", "0")
    assert outcome.code == 1
    assert f"a platform runs here already: process {up.running.process.pid}, at http://127.0.0.1:" in outcome.err
    assert outcome.err.endswith("next:  faas down ends it\n")


def test_a_taken_port_is_told_before_anything_is_made_ready(faas: Faas) -> None:
    Path("hello_up.py").write_text(HELLO)
    with socket.create_server(("127.0.0.1", 0)) as held:
        outcome = faas("up", "hello_up.py", "--port", str(held.getsockname()[1]))
    assert outcome.code == 1
    assert f"is taken by {Path('/proc/self/comm').read_text().strip()} (process {os.getpid()})\n" in outcome.err
    assert "importing" not in outcome.err


def test_a_target_that_is_not_there_is_a_wrong_call(faas_process: Faas) -> None:
    Path("hello_up.py").write_text(HELLO)
    outcome = faas_process("up", "hello_up.py", "absent.py", "--port", "0")
    assert outcome.code == 2
    assert "absent.py: there is no such file" in outcome.err
    assert "importing" not in outcome.err


@pytest.mark.slow
def test_while_it_comes_up_it_is_seen_and_can_be_ended(faas: Faas, faas_process: Faas, home: Path) -> None:
    Path("endless_up.py").write_text("import os, signal\nos.write(2, b'importing now\\n')\nsignal.pause()\n" + HELLO)
    with running("up", "endless_up.py", "--port", "0") as up:
        up.wait_for("importing")
        pid = up.process.pid
        assert f"the platform (process {pid}) is coming up" in faas("ps").err
        second = faas_process("up", "endless_up.py", "--port", "0")
        assert second.code == 1
        assert second.err.startswith(f"error: a platform is coming up here already: process {pid}\n")
        assert second.err.endswith("next:  faas down ends it\n")
        ended = faas("down")
        assert (ended.code, ended.out) == (0, "the platform has ended\n")
        assert up.process.wait(0) == 1
    assert faas("down").out == "no platform runs here\n"


def test_whoever_is_refused_leaves_the_lock_as_it_is(home: Path) -> None:
    found = settings.read()

    async def second() -> None:
        await main.run(["absent.py"], host="127.0.0.1", port=0, settings=found, progress=print)

    with coming_up(home, os.getpid()):
        with pytest.raises(PlatformError, match="a platform already runs"):
            asyncio.run(second())
        assert address.holder(found) == os.getpid()


def test_detached_it_says_how_it_comes_up_and_runs_until_it_is_told_to_end(
    faas: Faas, faas_process: Faas, home: Path
) -> None:
    Path("hello_up.py").write_text(HELLO)
    started = faas_process("up", "hello_up.py", "--port", "0", "--detach")
    try:
        assert started.code == 0, started.err
        assert "setting up hello\n" in started.err
        assert "hello is at http://127.0.0.1:" in started.err
        assert started.err.endswith("stop it with: faas down\n")
        assert faas("invoke", "hello", "-d", '{"name": "Cy"}').out == '"Hello, Cy!"\n'
    finally:
        ended = faas("down")
    assert (ended.code, ended.out) == (0, "the platform has ended\n")
    assert faas("down").out == "no platform runs here\n"
    assert "hello is at " in (home / "logs" / "platform.log").read_text()


@pytest.mark.slow
def test_detached_a_failure_is_told_at_once(faas_process: Faas, home: Path) -> None:
    Path("broken_up.py").write_text("raise RuntimeError('no')\n")
    outcome = faas_process("up", "broken_up.py", "--port", "0", "-d")
    assert outcome.code == 1
    assert "RuntimeError: no" in outcome.err
    assert "error: the platform ended before it was up\n" in outcome.err
    assert str(home / "logs" / "platform.log") in outcome.err


def test_the_record_of_a_platform_that_was_killed_is_no_hindrance(faas_process: Faas, home: Path) -> None:
    record(home, pid=2**22 + 1)
    outcome = faas_process("up", "absent.py", "--port", "0")
    assert "absent.py: there is no such file" in outcome.err


def test_a_pid_that_is_another_process_by_now_is_no_platform(faas: Faas, faas_process: Faas, home: Path) -> None:
    """In a container that is started again it is often the new platform's own."""
    with coming_up(home, os.getpid()):  # and was killed
        record(home)
    assert "no platform runs here" in faas("list").err
    assert faas("down").out == "no platform runs here\n"
    assert "absent.py: there is no such file" in faas_process("up", "absent.py", "--port", "0").err


def test_whoever_reads_what_it_says_may_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    left = os.fdopen(writer, "w")
    monkeypatch.setattr("sys.stderr", left)
    say("what is served goes on")
    say("and so does what is deployed later")
    with contextlib.suppress(BrokenPipeError):
        left.close()


def test_who_comes_up_has_not_the_record_of_one_that_was_killed(home: Path) -> None:
    record(home)
    found = settings.read()
    with alone(found):
        assert address.holder(found) == os.getpid()
        assert address.read_record(found) is None


@pytest.mark.slow
def test_st_09_the_command_line_chooses_how_snapshots_are_loaded(faas: Faas, faas_process: Faas, home: Path) -> None:
    Path("held_up.py").write_text(HELD)
    assert "'maps' is not one of 'auto', 'map', 'read', 'direct'" in faas("up", "held_up.py", "--load", "maps").err
    answers = []
    for options in ((), ("--load", "read")):
        started = faas_process("up", "held_up.py", "--port", "0", "--detach", *options)
        try:
            assert started.code == 0, started.err
            answers.append(faas("invoke", "held", "-d", "77").out)
        finally:
            faas("down")
    assert answers == ["[77,true]\n", "[77,false]\n"]
