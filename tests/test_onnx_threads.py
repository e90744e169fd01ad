"""The threads of sessions that `setup()` opens: the instance's, unless they were told."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from faas import local, onnx_threads, revision
from faas.platform.forking import revision_of
from faas.prepare import prepare
from tests.snapshot.onnx_bytes import adder, tensor

MODEL = adder(tensor("w", 4, raw=bytes(16)), 4)
APP = """
from pathlib import Path

from faas import inference_function


@inference_function(snapshot="off")
class Threads:
    def setup(self):
        import onnxruntime

        self.session = onnxruntime.InferenceSession(Path(__file__).with_name("model.onnx"))

    def predict(self) -> int:
        return self.session.get_session_options().intra_op_num_threads
"""
PROGRAM = """
import json, sys
from faas import onnx_threads
onnx_threads.limit(3)
assert "onnxruntime" not in sys.modules
import onnxruntime
own = onnxruntime.SessionOptions()
own.intra_op_num_threads = 2
untold = onnxruntime.SessionOptions()
opened = [onnxruntime.InferenceSession(sys.argv[1], options) for options in (None, own, untold)]
opened.append(onnxruntime.InferenceSession(sys.argv[1], sess_options=own, providers=["CPUExecutionProvider"]))
print(json.dumps([one.get_session_options().intra_op_num_threads for one in opened]))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(MODEL)
    return tmp_path / "model.onnx"


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime.InferenceSession, "__init__", onnxruntime.InferenceSession.__init__)


def threads_of(model: Path) -> int:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return int(session.get_session_options().intra_op_num_threads)


def test_or_04_sessions_of_a_library_that_is_imported_later_are_limited_unless_told(model: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(model)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [3, 2, 3, 2]


def test_or_04_sessions_of_a_library_that_is_there_are_limited(model: Path) -> None:
    assert threads_of(model) == 0  # for each core one
    onnx_threads.limit(3)
    assert threads_of(model) == 3
    onnx_threads.limit(5)  # the first of a process counts
    assert threads_of(model) == 3


def test_or_04_a_session_of_setup_has_the_threads_that_its_instance_was_given(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = model.with_name("threads_app.py")
    app.write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (preparation,) = asyncio.run(prepare(str(app), model.parent / "store", progress=lambda _: None))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    loaded = revision.Loaded(revision_of(preparation))
    try:
        loaded.begin({})
        assert local.call_one(loaded.handler, loaded.handler.function.main, {}) == 3
    finally:
        sys.modules.pop("threads_app", None)
