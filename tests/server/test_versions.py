from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from faas import Batching, Calls, Versions, inference_function
from faas.server.admin import Admin, Forbidden
from tests.engine.versions.rig import LONG_S, Bench, Numbered
from tests.server.conftest import Serving

pytestmark = pytest.mark.anyio

ONCE = Versions(poll_s=0, retry_s=-1, load_retries=0)


def function(spec: Versions = ONCE, **options: Any) -> Any:
    options = {"batching": Batching(max_batch_size=8)} | options
    return inference_function(name="numbered", versions=spec, **options)(Numbered)


def served(serving: Serving, bench: Bench, made: Any, **options: Any) -> Any:
    return serving(made, load=lambda: None, runtime={"supply": bench}, **options)


async def test_an_answer_says_its_version_and_a_call_may_name_one(serving):
    made = function(Versions(policy="all", poll_s=0))
    bench = Bench(made, 1, 2)
    bench.say(labels={"canary": 1})
    async with served(serving, bench, made) as instance:
        answer = await instance.post(7)
        assert (answer.json(), answer.headers["x-model-version"]) == (2, "2")
        for headers in ({"X-Model-Version": "1"}, {"X-Model-Label": "canary"}, {"X-Model-Version": "00001"}):
            answer = await instance.post(7, headers=headers)
            assert (answer.json(), answer.headers["x-model-version"]) == (1, "1")


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"X-Model-Version": "9"}, 404, "version 9 of numbered is not served; these are: 1"),
        ({"X-Model-Label": "nope"}, 400, "no label 'nope'"),
        ({"X-Model-Version": "1", "X-Model-Label": "canary"}, 400, "send one of them"),
        ({"X-Model-Version": "one"}, 400, "'one' is no number of a version"),
        ({"X-Model-Version": str(2**63)}, 400, "is no number of a version"),
    ],
)
async def test_l15_what_a_call_names_wrongly_is_refused(serving, headers, status, said):
    made = function()
    async with served(serving, Bench(made, 1), made) as instance:
        answer = await instance.post(7, headers=headers)
        assert answer.status_code == status
        assert said in answer.json()["detail"]
        assert "x-model-version" not in answer.headers


async def test_the_status_is_as_tensorflow_serving_tells_it(serving):
    made = function(Versions(policy="all", poll_s=0, load_retries=0, retry_s=-1))
    bench = Bench(made, 123)
    async with served(serving, bench, made) as instance:
        golden = {
            "model_version_status": [
                {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
            ]
        }
        for path in ("/v1/models/numbered", "/v1/models/numbered/versions/123", "/V1/Models/numbered/Versions/123"):
            assert (await instance.client.get(path)).json() == golden
        assert (await instance.client.get("/f/numbered/v1/models/numbered")).json() == golden
        bench.broken[124] = "no weights"
        bench.put(123, 124)
        bench.say(labels={"stable": 123})
        await instance.runtime.versions.follow()
        assert (await instance.client.get("/v1/models/numbered/labels/stable")).json() == golden
        assert await instance.value("faas_versions", state="AVAILABLE") == 1
        assert await instance.value("faas_versions", state="END") == 1
        broken = (await instance.client.get("/v1/models/numbered/versions/124")).json()["model_version_status"][0]
        assert (broken["state"], broken["status"]["error_message"]) == ("END", "ValueError: no weights")
        rows = (await instance.client.get("/v1/models/numbered")).json()["model_version_status"]
        assert [row["version"] for row in rows] == ["124", "123"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/models/other", 404),
        ("/v1/models/numbered/versions/9", 404),
        ("/v1/models/numbered/versions/HELLO", 400),
        (f"/v1/models/numbered/versions/{2**63}", 400),
        ("/v1/models/numbered/labels/nope", 400),
        ("/v1/models/numbered/version/1", 404),
        ("/v1/models/numbered/versions/1/labels/stable", 404),
        ("/v1/models", 404),
    ],
)
async def test_a_status_of_what_is_not_there(serving, path, status):
    made = function()
    async with served(serving, Bench(made, 1), made) as instance:
        answer = await instance.client.get(path)
        assert answer.status_code == status
        if answer.headers["content-type"] == "application/json":
            assert set(answer.json()) == {"error"}


async def test_d14_the_repository_lists_loads_and_unloads(serving):
    made = function(Versions(mode="explicit", load_retries=0, retry_s=-1))
    bench = Bench(made, 1, 2)
    async with served(serving, bench, made, admin=Admin()) as instance:
        assert (await instance.post(7)).status_code == 503
        assert (await instance.client.post("/v2/repository/index")).json() == []
        assert (await instance.client.post("/v2/repository/models/numbered/load")).status_code == 200
        ready = {"name": "numbered", "version": "2", "state": "READY", "reason": ""}
        assert (await instance.client.post("/v2/repository/index", json={"ready": True})).json() == [ready]
        assert (await instance.post(7)).json() == 2
        assert (await instance.client.post("/v2/repository/models/numbered/unload")).status_code == 200
        gone = {"name": "numbered", "version": "2", "state": "UNAVAILABLE", "reason": "unloaded"}
        assert (await instance.client.post("/v2/repository/index", json={})).json() == [gone]
        assert (await instance.client.post("/v2/repository/index", json={"ready": True})).json() == []
        known = (await instance.client.get("/v2/repository/models/numbered")).json()
        assert (known["name"], known["default"], known["labels"]) == ("numbered", None, {})


async def test_d14_a_load_that_fails_is_a_400_with_the_reason(serving):
    made = function(Versions(mode="explicit", load_retries=0, retry_s=-1))
    bench = Bench(made, 1)
    bench.broken[1] = "no weights"
    async with served(serving, bench, made, admin=Admin()) as instance:
        answer = await instance.client.post("/v2/repository/models/numbered/load")
        assert answer.status_code == 400
        assert answer.json() == {"error": "version 1 of numbered cannot be loaded: ValueError: no weights"}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v2/repository/models/other/load", b"", 404, "no model 'other'"),
        ("/v2/repository/models/numbered/unload", b"", 400, "follows its source"),
        ("/v2/repository/models/numbered/load", b'{"parameters":{"file:../x":"AA=="}}', 400, "takes no parameters"),
        ("/v2/repository/models/numbered/load", b"{", 400, "not valid JSON"),
        ("/v2/repository/index", b'{"ready": "yes"}', 400, "Expected `bool`"),
        ("/v2/repository/index", b" " * 70_000, 413, "over"),
    ],
)
async def test_d14_what_the_repository_refuses(serving, path, body, status, said):
    made = function()
    async with served(serving, Bench(made, 1), made, admin=Admin()) as instance:
        answer = await instance.client.post(path, content=body)
        assert (answer.status_code, said in answer.json()["error"]) == (status, True)


async def test_changes_are_for_those_who_may(serving):
    made = function()
    load = "/v2/repository/models/numbered/load"
    async with served(serving, Bench(made, 1), made) as instance:  # of a platform
        answer = await instance.client.post(load)
        assert (answer.status_code, "control interface" in answer.json()["error"]) == (403, True)
    async with served(serving, Bench(made, 1), made, admin=Admin(token="t" * 20)) as instance:
        assert (await instance.client.post(load)).status_code == 403
        headers = {"Authorization": f"Bearer {'t' * 20}"}
        assert (await instance.client.post(load, headers=headers)).status_code == 200
    async with served(serving, Bench(made, 1), made, admin=Admin()) as instance:
        assert (await instance.client.post(load)).status_code == 200
        for name in ("X-Forwarded-For", "Forwarded", "Via", "Origin"):
            assert (await instance.client.post(load, headers={name: "x"})).status_code == 403


@pytest.mark.parametrize(
    ("client", "may"),
    [
        (("127.0.0.1", 9), True),
        (("::1", 9), True),
        (("192.0.2.1", 9), False),
        (("testclient", 9), False),
        (None, False),
    ],
)
def test_where_a_change_may_come_from(client, may):
    scope = {"headers": [], "client": client}
    if may:
        Admin().check(scope)
    else:
        with pytest.raises(Forbidden, match="from this machine alone"):
            Admin().check(scope)


async def test_a_function_without_versions_has_none_of_it(serving):
    @inference_function
    def plain(x: int) -> int:
        return x

    async with serving(plain, load=lambda: None) as instance:
        assert (await instance.client.get("/v1/models/plain")).status_code == 404
        answer = await instance.post(7, headers={"X-Model-Version": "3"})
        assert (answer.json(), answer.headers["x-model-version"]) == (7, "7")


async def test_mv_01_a_hot_swap_under_load(serving):
    made = function(batching=Batching(max_batch_size=8, wait_ms=0), calls=Calls(timeout_s=30))
    bench = Bench(made, 1)
    async with served(serving, bench, made) as instance:
        keeper = instance.runtime.versions
        sent: list[asyncio.Task[tuple[bool, httpx.Response]]] = []
        is_swapped = False
        stop = asyncio.Event()

        async def ask() -> tuple[bool, httpx.Response]:
            after = is_swapped
            return after, await instance.post(1)

        async def load() -> None:
            while not stop.is_set():
                sent.append(asyncio.ensure_future(ask()))
                await asyncio.sleep(0.02)

        loading = asyncio.ensure_future(load())
        while not any(task.done() for task in sent):
            await asyncio.sleep(0.01)
        bench.loading[2] = threading.Event()  # the load takes as long as the test lets it
        bench.put(2)
        swapping = [asyncio.ensure_future(keeper.follow()), asyncio.ensure_future(keeper.follow())]
        num_sent = len(sent)
        while len(sent) < num_sent + 20:
            await asyncio.sleep(0.01)
        assert not swapping[0].done()
        bench.only, bench.held[1] = 77, threading.Event()
        before = asyncio.ensure_future(instance.post(77))
        assert await asyncio.to_thread(bench.entered.wait, LONG_S)
        bench.loading[2].set()
        bench.held[1].set()
        await asyncio.wait_for(asyncio.gather(*swapping), LONG_S)
        is_swapped = True
        num_sent = len(sent)
        while len(sent) < num_sent + 20:
            await asyncio.sleep(0.01)
        stop.set()
        await loading
        answers = await asyncio.gather(*sent)
        assert {answer.status_code for _, answer in answers} == {200}
        assert {answer.json() for after, answer in answers if after} == {2}
        assert {answer.json() for after, answer in answers if not after} >= {1}
        assert all(str(answer.json()) == answer.headers["x-model-version"] for _, answer in answers)
        assert json.loads((await before).content) == 1
        assert bench.num_loads == {1: 1, 2: 1}
        assert bench.is_freed(1)
