import asyncio
import json
import os
import stat

import httpx
import pytest

from faas.errors import PlatformError, TargetError
from faas.platform.control import ControlServer, UnknownFunction
from faas.platform.logs import LogFile
from faas.platform.orders import Order, Outcome
from faas.slow_steps import Ongoing


class Platform:
    def __init__(self, folder):
        self.file = LogFile(folder, "f")
        self.scaled = []
        self.stopped = False
        self.asked = []
        self.given_up = asyncio.Event()

    def functions(self):
        return [{"name": "f"}]

    def instances(self):
        return []

    def log(self, name):
        if name != "f":
            raise UnknownFunction(f"no function {name!r} here")
        return self.file

    async def scale(self, name, num_instances):
        self.log(name)
        self.scaled.append((name, num_instances))
        return {"name": name, "instances": num_instances}

    def function(self, name):
        self.log(name)
        return {"name": name}

    async def share(self, name, percents, tags):
        self.log(name)
        self.asked.append((percents, tags))
        return {"name": name}

    async def roll_back(self, name, to):
        self.asked.append(to)
        raise PlatformError("there is none before")

    async def delete(self, name):
        self.log(name)
        self.asked.append(name)

    async def deploy(self, order, progress):
        self.asked.append(order)
        progress("importing")
        if order.target == "/absent.py":
            raise TargetError("there is no such file")
        if order.target == "/endless.py":
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.set()
        progress("starting")
        progress(Ongoing("still starting after 5 s"))
        return Outcome([{"name": "f"}], {"g": "no model"})

    def shut_down(self):
        self.stopped = True


async def served(folder, story):
    path = folder / "c.sock"
    platform = Platform(folder)
    server = ControlServer(platform, path)
    running = asyncio.ensure_future(server.run())
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://control"
    ) as client:
        try:
            await story(platform, client, path)
        finally:
            server.stop()
            await running
    assert not path.exists()


def test_what_can_be_asked(tmp_path):
    async def story(platform, client, path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert (await client.get("/functions")).json() == [{"name": "f"}]
        assert (await client.get("/instances")).json() == []
        assert (await client.post("/functions/f/scale", json={"instances": 2})).json()["instances"] == 2
        assert platform.scaled == [("f", 2)]
        assert (await client.post("/shutdown")).status_code == 200
        assert platform.stopped

    asyncio.run(served(tmp_path, story))


def test_what_cannot(tmp_path):
    async def story(platform, client, path):
        unknown = await client.post("/functions/g/scale", json={"instances": 2})
        assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/problem+json")
        assert "no function 'g'" in unknown.json()["detail"]
        for body in (b"", b'{"instances": "2"}', b'{"instances": -1}', b'{"instance": 1}'):
            wrong = await client.post("/functions/f/scale", content=body)
            assert wrong.status_code == 400, body
        assert (await client.get("/functions/f/logs?lines=x")).status_code == 400
        assert (await client.get("/functions/g/logs")).status_code == 404
        assert platform.scaled == []

    asyncio.run(served(tmp_path, story))


def test_logs_last_lines_and_follow(tmp_path):
    async def story(platform, client, path):
        platform.file.write("f-1", "one", "two", "three")
        lines = (await client.get("/functions/f/logs?lines=2")).text.splitlines()
        assert [line.partition('"text":')[2] for line in lines] == ['"two"}', '"three"}']
        async with client.stream("GET", "/functions/f/logs?lines=0&follow=1") as answer:
            reading = answer.aiter_lines()
            while not platform.file.num_followers:
                await asyncio.sleep(0.005)
            platform.file.write("f-1", "four")
            assert "four" in await anext(reading)

    asyncio.run(served(tmp_path, story))


def test_a_path_too_long_for_a_socket_says_what_to_set(tmp_path):
    with pytest.raises(PlatformError, match="FAAS_HOME"):
        ControlServer(Platform(tmp_path), tmp_path / ("x" * 120))


def test_changes_of_a_function(tmp_path):
    async def story(platform, client, path):
        assert (await client.get("/functions/f")).json() == {"name": "f"}
        assert (await client.get("/functions/g")).status_code == 404
        changed = await client.post("/functions/f/traffic", json={"percents": {"a": 100}, "tags": {"t": None}})
        assert changed.json() == {"name": "f"}
        assert platform.asked.pop() == ({"a": 100}, {"t": None})
        refused = await client.post("/functions/f/rollback", json={"to": None})
        assert (refused.status_code, refused.json()["detail"]) == (409, "there is none before")
        assert (await client.delete("/functions/f")).json() == {"deleted": "f"}
        assert (await client.delete("/functions/g")).status_code == 404
        for where, body in (("traffic", {"percents": {"a": "1"}}), ("traffic", {"x": 1}), ("rollback", {"to": 1})):
            assert (await client.post(f"/functions/f/{where}", json=body)).status_code == 400

    asyncio.run(served(tmp_path, story))


def test_a_deployment_tells_its_steps_and_its_outcome(tmp_path):
    async def story(platform, client, path):
        lines = (await client.post("/deploy", json={"target": "/app.py", "tag": "t"})).text.splitlines()
        assert platform.asked == [Order("/app.py", takes_traffic=True, tag="t")]
        assert [json.loads(line) for line in lines] == [
            {"step": "importing"},
            {"step": "starting"},
            {"step": "still starting after 5 s", "ongoing": True},
            {"functions": [{"name": "f"}], "failures": {"g": "no model"}, "error": None, "detail": ""},
        ]
        lines = (await client.post("/deploy", json={"target": "/absent.py"})).text.splitlines()
        last = json.loads(lines[-1])
        assert (last["error"], last["detail"]) == ("TargetError", "there is no such file")
        assert (await client.post("/deploy", json={"target": "/app.py", "tags": "t"})).status_code == 400

    asyncio.run(served(tmp_path, story))


def test_a_deployment_that_nobody_listens_to_any_more_is_given_up(tmp_path):
    async def story(platform, client, path):
        async with client.stream("POST", "/deploy", json={"target": "/endless.py"}) as answer:
            assert "importing" in await anext(answer.aiter_lines())
        await asyncio.wait_for(platform.given_up.wait(), 20)

    asyncio.run(served(tmp_path, story))
