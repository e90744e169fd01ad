from __future__ import annotations

import json
import os
import select
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from faas import targets
from tests.cli.conftest import HELLO, Faas
from tests.cli.process import running

AT = r"is at (http://[0-9.:]+)"


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    Path("hello_app.py").write_text(HELLO)


def post(url: str, value: Any) -> httpx.Response:
    return httpx.post(url, json=value, trust_env=False, timeout=60)


def test_serve_answers_until_it_is_told_to_stop() -> None:
    with running("serve", "hello_app.py", "--port", "0") as served:
        url = served.wait_for(AT)[1]
        answer = post(url, {"name": "Ada"})
        assert (answer.status_code, answer.json()) == (200, "Hello, Ada!")
        assert answer.headers["x-model-version"] == "local"
        assert post(url, {"nmae": "Ada"}).status_code == 422
        assert served.end(signal.SIGTERM) == 0


def test_an_interrupt_ends_serve_well_and_without_a_traceback() -> None:
    with running("serve", "hello_app.py", "--port", "0") as served:
        served.wait_for(AT)
        assert served.end(signal.SIGINT) == 0
        assert len(served.lines) == 1


def test_serve_runs_the_life_of_a_handler_and_shows_what_it_prints_and_logs() -> None:
    Path("life.py").write_text(
        "import sys\n"
        "from faas import inference_function\n"
        "@inference_function\n"
        "class Life:\n"
        "    def setup(self): print('set up', file=sys.stderr, flush=True)\n"
        "    def after_thaw(self): print('thawed', file=sys.stderr, flush=True)\n"
        "    def predict(self, n: int) -> float: return 1 / n\n"
        "    def teardown(self): print('torn down', file=sys.stderr, flush=True)\n"
    )
    with running("serve", "life.py", "--port", "0", "--log-format", "console") as served:
        url = served.wait_for(AT)[1]
        assert served.lines[:2] == ["set up\n", "thawed\n"]
        assert post(url, 0).status_code == 500
        served.wait_for("ZeroDivisionError: division by zero")
        assert served.end(signal.SIGTERM) == 0
        assert served.lines[-1] == "torn down\n"


def test_a_function_that_cannot_start_is_an_error_with_the_reason() -> None:
    Path("bad.py").write_text(
        "from faas import inference_function\n"
        "@inference_function\n"
        "class Bad:\n"
        "    def setup(self): raise RuntimeError('no weights')\n"
        "    def predict(self, n: int) -> int: return n\n"
    )
    with running("serve", "bad.py", "--port", "0") as served:
        served.wait_for(r"error: bad did not start: RuntimeError: no weights \(bad\.py:4\)$")
        assert served.process.wait(60) == 1


def test_who_stops_it_is_told_what_it_waits_for() -> None:
    Path("blocked.py").write_text(
        "import sys, threading\n"
        "from faas import inference_function\n"
        "@inference_function\n"
        "def blocked(n: int) -> int:\n"
        "    print('computing', file=sys.stderr, flush=True)\n"
        "    threading.Event().wait(60)\n"
    )
    with running("serve", "blocked.py", "--port", "0") as served, ThreadPoolExecutor() as callers:
        calling = callers.submit(post, served.wait_for(AT)[1], 1)
        served.wait_for("computing")
        served.process.send_signal(signal.SIGINT)
        served.wait_for("what is in flight is finished first, within 30 s; told again, it ends at once")
        assert served.end(signal.SIGINT) == 128 + signal.SIGINT
        assert isinstance(calling.exception(), httpx.TransportError)


def test_a_taken_port_is_an_error_that_names_the_process(faas: Faas) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        outcome = faas("serve", "hello_app.py", "--port", str(held.getsockname()[1]))
    assert outcome.code == 1
    assert "is taken by" in outcome.err
    assert outcome.err.endswith("next:  --port 0 takes a free one\n")


def test_several_functions_need_a_name(faas: Faas) -> None:
    Path("pair_app.py").write_text(HELLO + HELLO.replace("hello", "other").replace("Greeting", "Other"))
    outcome = faas("serve", "pair_app.py", "--port", "0")
    assert outcome.code == 2
    assert "pair_app.py defines several functions: hello, other" in outcome.err
    assert "name one: pair_app.py:hello" in outcome.err


@pytest.mark.parametrize("args", [("--port", "70000"), ("--port", "x"), ("--keep-alive", "0"), ("--log-format", "xml")])
def test_a_wrong_option_is_a_wrong_call(faas: Faas, args: tuple[str, ...]) -> None:
    outcome = faas("serve", "hello_app.py", *args)
    assert outcome.code == 2
    assert outcome.err.endswith("next:  faas serve --help\n")


def test_the_keep_alive_is_told_in_help(faas: Faas) -> None:
    assert "--keep-alive" in faas("serve", "--help").out


def test_reload_serves_the_code_as_it_is_now() -> None:
    with running("serve", "hello_app.py", "--port", "0", "--reload") as served:
        url = served.wait_for(r"serving .*hello_app\.py at (http://[0-9.:]+), and again")[1]
        served.wait_for(AT)
        assert post(url, {"name": "Ada"}).json() == "Hello, Ada!"

        Path("hello_app.py").write_text(HELLO.replace("Hello", "Good day"))
        served.wait_for(r"hello_app\.py changed")
        served.wait_for(AT)
        assert post(url, {"name": "Ada"}).json() == "Good day, Ada!"

        Path("hello_app.py").write_text(HELLO + "\nbroken(")
        served.wait_for("SyntaxError")
        served.wait_for("ended with status 2; waiting for a change")

        Path("hello_app.py").write_text(HELLO.replace("Hello", "Hi"))
        served.wait_for(AT)
        assert post(url, {"name": "Ada"}).json() == "Hi, Ada!"
        assert served.end(signal.SIGINT) == 0
        with pytest.raises(httpx.ConnectError):
            post(url, {"name": "Ada"})


@pytest.mark.slow
def test_reload_sees_a_change_of_a_module_beside_it_and_no_other_files() -> None:
    Path("words.py").write_text("WORD = 'one'\n")
    Path("worded.py").write_text(
        "from words import WORD\nfrom faas import inference_function\n"
        "@inference_function\ndef word(n: int) -> str: return WORD\n"
    )
    with running("serve", "worded.py", "--port", "0", "--reload") as served:
        url = served.wait_for(AT)[1]
        Path("notes.txt").write_text("not code")
        Path("words.py").write_text("WORD = 'two'\n")
        assert served.wait_for(r'"message":"(.*) changed"')[1] == "words.py"
        served.wait_for(AT)
        assert post(url, 1).json() == "two"
        assert served.end(signal.SIGTERM) == 0


def test_a_child_ends_with_its_parent() -> None:
    with running("serve", "hello_app.py", "--port", "0", "--reload") as served:
        url = served.wait_for(AT)[1]
        pid = int(post(url, {"name": "Ada"}).headers["x-instance-id"].rpartition("-")[2])
        child = os.pidfd_open(pid)
        served.process.kill()
        ended, _, _ = select.select([child], [], [], 60)
        os.close(child)
        assert ended


def test_serve_loads_a_target_as_it_is_written_elsewhere(folder: Path) -> None:
    text = targets.Target.of("hello_app.py:hello").text
    with running("serve", text, "--port", "0") as served:
        assert json.loads(post(served.wait_for(AT)[1], {"name": "Bea"}).content) == "Hello, Bea!"
        assert served.end(signal.SIGTERM) == 0
