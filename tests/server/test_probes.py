from __future__ import annotations

import asyncio
import threading
import time

import pytest

from faas import inference_function
from faas.server.probes import HOLD_S
from tests.server.answers import echo, problem

pytestmark = pytest.mark.anyio

PAGES = ["/livez", "/readyz", "/healthz", "/metrics", "/openapi.json", "/docs"]


async def like_get(served, path: str) -> None:
    """Check that HEAD answers as GET does, without a body, and that OPTIONS says what is allowed."""
    got = await served.client.get(path)
    reader, writer = await served.raw()
    writer.write(f"HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert body == b""
    assert int(head.split()[1]) == got.status_code
    if path != "/metrics":  # which counts on
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        assert abs(int(length.split(b":")[1]) - len(got.content)) <= 2, "but for the length of the request's id"
    options = await served.client.options(path)
    assert options.status_code == 204
    assert options.content == b""
    assert "OPTIONS" in options.headers["allow"]


async def test_ht_09_head_and_options_are_like_get_also_while_starting(serving):
    may_load = threading.Event()
    async with serving(echo, load=lambda: may_load.wait(20), ready_first=False) as served:
        for path in (*PAGES, "/", "/predict"):
            await like_get(served, path)
        assert (await served.client.get("/readyz")).status_code == 503
        may_load.set()
        await served.until_ready()
        for path in (*PAGES, "/", "/predict"):
            await like_get(served, path)
        assert (await served.client.options("/")).headers["allow"] == "POST, OPTIONS"


async def test_a_probe_of_the_kubelet_is_held_until_the_instance_is_ready(serving):
    may_load = threading.Event()
    kubelet = {"user-agent": "kube-probe/1.36"}
    async with serving(echo, load=lambda: may_load.wait(20), ready_first=False) as served:
        begun = time.monotonic()
        assert (await served.client.get("/readyz", headers=kubelet)).status_code == 503
        assert time.monotonic() - begun >= HOLD_S, "for as long as it waits"
        held = asyncio.create_task(served.client.get("/readyz", headers=kubelet))
        assert (await served.client.get("/readyz")).status_code == 503, "everybody else is answered at once"
        assert not held.done()
        may_load.set()
        assert (await held).status_code == 200


async def test_a_probe_that_is_held_hears_of_a_start_that_failed(serving):
    may_load = threading.Event()

    def load() -> None:
        may_load.wait(20)
        raise OSError("no weights")

    async with serving(echo, load=load, ready_first=False) as served:
        held = asyncio.create_task(served.client.get("/readyz", headers={"user-agent": "kube-probe/1.36"}))
        assert (await served.client.get("/livez")).status_code == 200
        assert not held.done()
        may_load.set()
        answer = await held
        assert answer.status_code == 503
        assert "no weights" in answer.json()["reason"]


async def test_405_and_404_are_problems(serving):
    async with serving(echo) as served:
        for method, path, allow in (("GET", "/", "POST, OPTIONS"), ("POST", "/livez", "GET, HEAD, OPTIONS")):
            response = await served.client.request(method, path)
            problem(response, 405)
            assert response.headers["allow"] == allow
        problem(await served.client.get("/nowhere"), 404)
        assert problem(await served.client.get("/livez/"), 404)
        assert (await served.client.options("/nowhere")).status_code == 404


async def test_kn_06_the_port_is_open_during_the_load_and_ready_only_after(serving):
    may_load = threading.Event()

    @inference_function
    class Slow:
        def setup(self) -> None:
            may_load.wait(20)
            self.number = 5

        def predict(self) -> int:
            return self.number

    async with serving(Slow, ready_first=False) as served:
        for _ in range(3):
            refused = await served.client.post("/")
            assert "starting" in problem(refused, 503)["detail"]
            assert int(refused.headers["retry-after"]) >= 1
            ready = await served.client.get("/readyz")
            assert (ready.status_code, ready.json()["state"]) == (503, "starting")
            assert int(ready.headers["retry-after"]) >= 1
            assert (await served.client.get("/livez")).status_code == 200
        may_load.set()
        await served.until_ready()
        assert (await served.client.post("/")).json() == 5


async def test_liveness_answers_while_the_model_computes(serving):
    entered, release = threading.Event(), threading.Event()
    loop, inside = asyncio.get_running_loop(), asyncio.Event()

    @inference_function
    def blocks() -> int:
        entered.set()
        loop.call_soon_threadsafe(inside.set)
        release.wait(20)
        return 1

    async with serving(blocks) as served:
        computing = asyncio.create_task(served.client.post("/"))
        try:
            await asyncio.wait_for(inside.wait(), 10)
            for path in ("/livez", "/readyz", "/metrics"):
                assert (await asyncio.wait_for(served.client.get(path), 5)).status_code == 200
            assert not computing.done()
        finally:
            release.set()
        assert (await computing).json() == 1


async def test_a_failed_start_says_why(serving):
    def load() -> None:
        raise RuntimeError("no weights at /models/x")

    async with serving(echo, load=load, ready_first=False) as served:
        while (await served.client.get("/readyz")).json()["state"] == "starting":
            await asyncio.sleep(0.01)
        said = (await served.client.get("/readyz")).json()
        assert said["state"] == "failed"
        assert "no weights at /models/x" in said["reason"]
        refused = await served.post(1)
        assert "no weights" in problem(refused, 503)["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert (await served.client.get("/livez")).status_code == 200
        assert await served.value("faas_instances", state="failed") == 1


async def test_a_failed_start_ends_the_server_where_that_is_asked(serving):
    def load() -> None:
        raise RuntimeError("no weights")

    async with serving(echo, load=load, exit_on_failure=True, ready_first=False) as served:
        assert await asyncio.wait_for(served.done, 10) == 1
