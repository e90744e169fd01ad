import asyncio
import os
import stat

import httpx
import pytest

from faas.errors import PlatformError
from faas.platform.control import ControlServer, UnknownFunction
from faas.platform.logs import LogFile


class Platform:
    def __init__(self, folder):
        self.file = LogFile(folder, "f")
        self.scaled = []
        self.stopped = False

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
