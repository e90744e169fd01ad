"""Functions whose modules are exported: made ready for real, and started as instances that have no zygote."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snapshot
from faas import export, instance, instance_messages
from faas.platform.forking import revision_of
from faas.preparation import Preparation
from faas.prepare import prepare
from faas.revision import thaw
from snapshot.paths import Step

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.linear(torch.as_tensor(x, dtype=torch.float32))
"""
APP = """
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from faas import Batching, inference_function

@inference_function(batching=Batching(max_batch_size=4), warmup=[[1.0, 2.0, 3.0]])
class Linear:
    def setup(self):
        from net import Net
        self.calls = 0
        self.nets = {"one": Net().eval()}
    @torch.inference_mode()
    def predict(self, rows: list[list[float]]) -> list[list[float]]:
        self.calls += 1
        return np.asarray(self.nets["one"](np.array(rows, "f4"))).tolist()
"""
LATE = """
import torch
from faas import inference_function

@inference_function(warmup=[[1.0, 2.0, 3.0]])
class Late:
    def setup(self):
        from net import Net
        self.net = Net().eval()
    def predict(self, row: list[float]) -> list[float]:
        x = torch.tensor([row])
        with torch.no_grad():
            return torch.softmax(self.net(x), dim=-1)[0].tolist()
"""
NONE = """
from faas import inference_function, Snapshot

@inference_function(warmup=[1], snapshot=Snapshot(export="onnx"))
class None_:
    def setup(self):
        self.factor = 2
    def predict(self, x: int) -> int:
        return x * self.factor
"""


def made(folder: Path, app: str, **options: Any) -> tuple[Preparation, list[str]]:
    (folder / "net.py").write_text(NET)
    (folder / "app.py").write_text(textwrap.dedent(app))
    steps: list[str] = []
    target = str(folder / "app.py")
    (preparation,) = asyncio.run(prepare(target, folder / "store", progress=steps.append, **options))
    return preparation, steps


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Preparation:
    preparation, steps = made(tmp_path_factory.mktemp("exported"), APP, export="onnx")
    assert any("exported to onnx" in step for step in steps)
    return preparation


SERVE = """
import json, socket, sys, threading
sys.path[:0] = sys.argv[4:]
from faas import instance
control, listen, order = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
status = instance.main(order.encode(), {"control": control, "listen": listen})
print(json.dumps(sorted(sys.modules)))
"""


def served(preparation: Preparation, bodies: list[bytes]) -> tuple[list[bytes], set[str]]:
    """Start an instance by exec, post `bodies`, and return the answers and the modules that it had at its end."""
    ours, theirs = socket.socketpair()
    with socket.socket() as listen, theirs:
        listen.bind(("127.0.0.1", 0))
        listen.listen()
        address = listen.getsockname()
        order = instance_messages.Order(revision=revision_of(preparation), instance_id="i", ordered_at=0.0)
        numbers = [theirs.fileno(), listen.fileno()]
        command = [sys.executable, "-P", "-c", SERVE, *map(str, numbers), msgspec.json.encode(order).decode()]
        process = subprocess.Popen(
            [*command, str(Path(instance.__file__).parents[1])],
            pass_fds=numbers,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "FAAS_HOME": str(Path(preparation.description.target).parent)},
        )
    with process, ours:
        ours.settimeout(100)
        assert b'"type":"ready"' in ours.recv(65536)
        answers = [_post(address, body) for body in bodies]
        ours.shutdown(socket.SHUT_WR)
        printed, _ = process.communicate(timeout=100)
    return answers, set(json.loads(printed.splitlines()[-1]))


def _post(address: tuple[str, int], body: bytes) -> bytes:
    with socket.create_connection(address, timeout=100) as sock:
        head = f"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        return b"".join(iter(lambda: sock.recv(65536), b"")).partition(b"\r\n\r\n")[2]


NEEDLESS = (
    "torch", "transformers", "rich", "httpx", "boto3", "botocore", "kubernetes", "aiohttp", "cloudpickle", "pydantic",
    "grpc", "importlib_metadata", "email.mime", "hdrh", "prometheus_client", "pandas", "scipy", "onnx", "onnxscript",
    "platformdirs", "click", "watchfiles", "anyio", "multiprocessing", "importlib.metadata", "snapshot.skeleton",
    "faas.cli", "faas.client", "faas.platform", "faas.prepare",
)  # fmt: skip


@pytest.mark.slow
def test_an_instance_of_it_answers_as_the_original_and_imports_nothing_that_it_does_not_need(
    exported: Preparation,
) -> None:
    assert (exported.export, exported.compared, exported.late) == ("onnx", True, {})
    assert exported.later == ("torch",)
    answers, modules = served(exported, [b"[1.0, 2.0, 3.0]", b"[0, 1, 0]"])
    folder = Path(exported.description.target).parent
    program = "import json, net, torch; n = net.Net(); print(json.dumps(n([[1.0, 2.0, 3.0], [0, 1, 0]]).tolist()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, check=True, timeout=100)
    for answer, wanted in zip(answers, json.loads(done.stdout), strict=True):
        assert json.loads(answer) == pytest.approx(wanted, abs=1e-5)
    loaded = {name for name in NEEDLESS if any(one == name or one.startswith(f"{name}.") for one in modules)}
    assert not loaded
    assert {"onnxruntime", "numpy", "uvloop"} <= modules
    assert not any(name in exported.imports for name in ("torch", "onnxscript"))


def test_or_04_a_thawed_session_has_the_threads_that_its_process_was_given(
    exported: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        thawed = thaw(revision_of(exported), str(exported.snapshot), "map", background=False)
        session = thawed.state["attributes"]["nets"]["one"].backend.graph.session
        assert session.get_session_options().intra_op_num_threads == int(count)


def test_the_examples_change_nothing_of_what_is_frozen(exported: Preparation) -> None:
    assert exported.snapshot is not None
    assert snapshot.thaw(Path(exported.snapshot)).state["attributes"]["calls"] == 0


def test_it_stays_exported_when_it_is_made_again_and_is_not_made_for_nothing(exported: Preparation) -> None:
    target = exported.description.target.rpartition(":")[0]
    store = Path(str(exported.snapshot)).parents[1]
    steps: list[str] = []
    for options in ({}, {"export": "onnx"}):
        (again,) = asyncio.run(prepare(target, store, progress=steps.append, **options))
        assert again == exported
    assert steps == []


@pytest.mark.slow
def test_what_predict_uses_of_torch_is_imported_then_and_told(tmp_path: Path) -> None:
    late, steps = made(tmp_path, LATE, export="onnx")
    assert (late.export, late.compared) == ("onnx", True)
    assert list(late.late) == ["torch"]
    assert late.late["torch"].endswith("app.py:11")
    assert any("imports torch all the same, at" in step for step in steps)


def test_what_cannot_be_exported_is_frozen_as_it_is_and_the_reason_told(tmp_path: Path) -> None:
    plain, _ = made(tmp_path, NONE)
    assert plain.snapshot is not None
    assert (plain.export, plain.compared) == (None, True)
    assert "makes no torch module" in str(plain.export_reason)


@pytest.mark.parametrize(
    ("trail", "wanted"),
    [
        ((("attributes", False), ("model", False)), "self.model"),
        ((("attributes", False), ("nets", False), ("one", False)), "self.nets['one']"),
        ((("attributes", False), ("holder", False), ("model", True)), "self.holder.model"),
        ((("globals", False), ("app", False), ("MODEL", False)), "app.MODEL"),
    ],
)
def test_a_module_is_named_as_the_handlers_own_code_spells_it(trail: Any, wanted: str) -> None:
    assert export.as_written(tuple(Step(*step) for step in trail)) == wanted
