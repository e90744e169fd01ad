from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import HELLO, Faas
from tests.cli.process import running

KINDS = """
import asyncio
from collections.abc import AsyncIterator, Iterator

from faas import Batching, endpoint, inference_function


@inference_function
async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


@inference_function
def count(n: int) -> Iterator[int]:
    yield from range(n)


@inference_function
async def tick(n: int) -> AsyncIterator[dict]:
    for i in range(n):
        yield {"i": i}


@inference_function(batching=Batching())
def sizes(files: list[bytes]) -> list[int | Exception]:
    return [len(f) if f else ValueError("empty file") for f in files]


@inference_function
def labelled(content: bytes, label: str) -> str:
    return f"{label}: {len(content)}"


@inference_function
def echo(content: bytes) -> bytes:
    return content[::-1]


@inference_function
class Two:
    def setup(self) -> None:
        print("setting up")

    def predict(self, n: int = 7) -> int:
        return n

    @endpoint("/twice")
    def twice(self, n: int) -> int:
        return 2 * n


@inference_function
def fails(n: int) -> float:
    return 1 / n
"""


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    Path("hello_app.py").write_text(HELLO)
    Path("kinds.py").write_text(KINDS)


def test_run_prints_the_answer_as_json(faas: Faas) -> None:
    outcome = faas("run", "hello_app.py", "--data", '{"name": "Ada"}')
    assert (outcome.code, outcome.out, outcome.err) == (0, '"Hello, Ada!"\n', "")


def test_run_reads_json_from_a_file_and_from_standard_input(faas: Faas) -> None:
    Path("in.json").write_text('{"name": "Bea", "excited": false}')
    assert faas("run", "hello_app.py", "-d", "@in.json").out == '"Hello, Bea."\n'
    assert faas("run", "hello_app.py", "-d", "-", stdin=b'{"name": "Cy"}').out == '"Hello, Cy!"\n'


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        ("later", "4", ["5"]),
        ("count", "3", ["0", "1", "2"]),
        ("tick", "2", ['{"i":0}', '{"i":1}']),
        ("Two", None, ["7"]),
    ],
)
def test_run_calls_each_kind_of_function(faas: Faas, name: str, data: str | None, lines: list[str]) -> None:
    given = [] if data is None else ["--data", data]
    outcome = faas("run", f"kinds.py:{name}", *given)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == lines


def test_what_the_function_prints_stays_out_of_the_answer(faas: Faas) -> None:
    outcome = faas("run", "kinds.py:Two", "--data", "1")
    assert (outcome.out, outcome.err) == ("1\n", "setting up\n")


def test_run_sends_a_files_bytes(faas: Faas) -> None:
    Path("in.bin").write_bytes(b"\x00\xff\x01")
    assert faas("run", "kinds.py:sizes", "--file", "in.bin").out == "3\n"
    assert faas("run", "kinds.py:echo", "--file", "in.bin").out_bytes == b"\x01\xff\x00"
    assert faas("run", "kinds.py:echo", "--file", "-", stdin=b"ab").out_bytes == b"ba"
    assert faas("run", "kinds.py:echo", "--data", "ab").out_bytes == b"ba"


def test_run_calls_another_endpoint_by_its_path(faas: Faas) -> None:
    assert faas("run", "kinds.py:Two", "--path", "/twice", "-d", "4").out == "8\n"
    assert faas("run", "kinds.py:Two", "--path", "twice", "-d", "4").out == "8\n"
    outcome = faas("run", "kinds.py:Two", "--path", "/thrice")
    assert outcome.code == 2
    assert "give one of --path /, /twice" in outcome.err
    outcome = faas("run", "kinds.py:Two", "--path", "twice", "-d", '"x"')
    assert outcome.err.endswith("next:  faas run kinds.py:Two --path twice --data '1'\n")


def test_several_functions_need_a_name(faas: Faas) -> None:
    outcome = faas("run", "kinds.py", "--data", "1")
    assert outcome.code == 2
    assert "several functions: later, count, tick, sizes, labelled, echo, two, fails" in outcome.err
    assert outcome.err.endswith("next:  name one: kinds.py:later\n")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ('{"nmae": "Ada"}', "unknown field 'nmae' (did you mean 'name'?); known: name, excited"),
        ('{"name": 3}', "Expected `str`, got `int` (at $.name)"),
        ('{"name"', "the body is not valid JSON"),
        (None, "missing required field `name`"),
    ],
)
def test_wrong_input_is_a_wrong_call_and_shows_right_input(faas: Faas, data: str | None, what: str) -> None:
    given = [] if data is None else ["--data", data]
    outcome = faas("run", "hello_app.py", *given)
    assert (outcome.code, outcome.out) == (2, "")
    assert what in outcome.err
    shown = outcome.err.splitlines()[1].partition("--data ")[2].strip("'")
    assert faas("run", "hello_app.py", "--data", shown).out == '"Hello, text!"\n'


def test_bytes_and_json_are_not_taken_for_each_other(faas: Faas) -> None:
    Path("in.bin").write_bytes(b"\x00")
    outcome = faas("run", "hello_app.py", "--file", "in.bin")
    assert outcome.code == 2
    assert "takes JSON, not a file's bytes" in outcome.err
    outcome = faas("run", "kinds.py:labelled", "--file", "in.bin")
    assert (
        "it takes content, label, of which a file's bytes are one: in JSON, bytes are written in base64" in outcome.err
    )
    assert faas("run", "kinds.py:labelled", "--data", '{"content": "AAE=", "label": "x"}').out == '"x: 2"\n'
    outcome = faas("run", "kinds.py:echo")
    assert outcome.code == 2
    assert "content takes bytes, and none were given\nnext:  faas run kinds.py:echo --file PATH" in outcome.err


def test_data_and_file_together_are_refused(faas: Faas) -> None:
    outcome = faas("run", "hello_app.py", "-d", "1", "-f", "x")
    assert outcome.code == 2
    assert "--data and --file were both given" in outcome.err


def test_a_file_that_cannot_be_read_is_a_wrong_call(faas: Faas) -> None:
    outcome = faas("run", "hello_app.py", "-d", "@absent.json")
    assert outcome.code == 2
    assert "absent.json cannot be read: No such file or directory" in outcome.err


def test_an_error_of_the_function_gives_its_line_and_no_traceback(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = faas("run", "kinds.py:fails", "-d", "0")
    assert (outcome.code, outcome.out) == (1, "")
    line = KINDS.splitlines().index("    return 1 / n") + 1
    assert outcome.err.startswith(f"error: fails raised ZeroDivisionError: division by zero (kinds.py:{line})\n")
    assert "FAAS_DEBUG=1" in outcome.err
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("FAAS_DEBUG", "1")
    assert "ZeroDivisionError: division by zero" in faas("run", "kinds.py:fails", "-d", "0").err


def test_an_error_returned_for_the_item_is_the_functions(faas: Faas) -> None:
    Path("empty").touch()
    outcome = faas("run", "kinds.py:sizes", "--file", "empty")
    assert outcome.code == 1
    assert "sizes raised ValueError: empty file" in outcome.err


def test_an_answer_that_is_no_json_is_an_error(faas: Faas) -> None:
    Path("odd.py").write_text(
        "from faas import inference_function\n@inference_function\ndef odd(n: int):\n    return object()\n"
    )
    outcome = faas("run", "odd.py", "-d", "1")
    assert outcome.code == 1
    assert "the answer cannot be written as JSON" in outcome.err


def test_nothing_but_json_is_written_for_numbers_that_json_lacks(faas: Faas) -> None:
    Path("nan.py").write_text(
        "from faas import inference_function\n@inference_function\ndef f(n: int):\n    return [float('nan'), n]\n"
    )
    assert json.loads(faas("run", "nan.py", "-d", "1").out) == [None, 1]


def test_gradients_are_off_as_in_an_instance_unless_asked_for(faas: Faas) -> None:
    Path("grad.py").write_text(
        "import torch\nfrom faas import inference_function\n\n\n"
        "@inference_function\ndef off() -> bool:\n    return torch.is_grad_enabled()\n\n\n"
        "@inference_function(grad=True)\ndef on() -> bool:\n    return torch.is_grad_enabled()\n"
    )
    assert faas("run", "grad.py:off").out == "false\n"
    assert faas("run", "grad.py:on").out == "true\n"


def test_ctrl_c_breaks_off_what_computes(folder: Path) -> None:
    Path("endless_run.py").write_text(
        "import threading\n"
        "from faas import inference_function\n"
        "@inference_function\n"
        "class Endless:\n"
        "    def predict(self) -> str:\n"
        "        print('computing', flush=True)\n"
        "        threading.Event().wait(60)\n"
        "        return 'too late'\n"
        "    def teardown(self): print('torn down', flush=True)\n"
    )
    with running("run", "endless_run.py", merged=True) as computing:
        computing.wait_for("computing")
        assert computing.end(signal.SIGINT) == 1
    assert [line.strip() for line in computing.lines if line.strip()] == ["computing", "torn down", "stopped"]


def test_a_plain_function_may_run_a_loop_of_its_own(faas: Faas) -> None:
    Path("loop_run.py").write_text(
        "import asyncio\n"
        "from faas import inference_function\n"
        "@inference_function\n"
        "def looped(n: int) -> int:\n"
        "    return asyncio.run(asyncio.sleep(0, n + 1))\n"
    )
    assert faas("run", "loop_run.py", "--data", "1").out == "2\n"
