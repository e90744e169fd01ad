"""The process of a node cache, as its pod runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

import snapshot
from snapshot import LocalStore
from snapshot.pins import Pins
from snapshot.s3_store import S3Store
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.knative.kubeconfig import write
from tests.s3_server import rclone


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def metrics(url: str) -> str:
    try:
        return httpx.get(f"{url}/metrics", timeout=10).text
    except httpx.TransportError:
        return ""


def test_a_node_gets_what_is_pinned_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.freeze({"weights": np.arange(10_000.0)}, tmp_path / "made")
    with rclone(tmp_path) as server, ApiServer() as api:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        stored = S3Store("s3://bucket/prod").publish("model", tmp_path / "made")
        Pins("s3://bucket/prod").pin("model", stored.digest)
        api.do(lambda state: state.store.put("nodes", {"metadata": {"name": "n1", "labels": {}}, "spec": {}}))
        port = free_port()
        command = [sys.executable, "-P", "-m", "faas.cli.main", "node-cache", "run", "s3://bucket/prod", "--node", "n1"]
        command += ["--folder", str(tmp_path / "node"), "--budget", "1Gi", "--port", str(port), "--host", "127.0.0.1"]
        environ = {**os.environ, "KUBECONFIG": write(tmp_path, api.url)}
        process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 60
            while 'faas_node_cache_pins{state="ready"} 1.0' not in metrics(f"http://127.0.0.1:{port}"):
                assert process.poll() is None
                assert time.monotonic() < deadline, "it fetched nothing"
                time.sleep(0.05)
            assert LocalStore(tmp_path / "node").find("model").digest == stored.digest
            while not api.called("patch", "nodes"):
                assert time.monotonic() < deadline, "it labelled nothing"
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            _, said = process.communicate()
    assert said.splitlines() == [f"model@{stored.short_digest} is here"]
    live = api.state.store.get("nodes", "", "n1")
    assert live is not None
    assert live["metadata"]["labels"] == {f"faas.dev/snapshot.{stored.short_digest}": "ready"}
