"""What a trial is judged by: what each revision's instances count, and what the platform failed for them."""

import asyncio
from types import SimpleNamespace

from starlette.applications import Starlette
from starlette.testclient import TestClient

from faas.platform.breaker import Capacity
from faas.platform.counted import route
from faas.platform.instances import State

METRICS = b"faas_requests_total 3\n"


def instance(name, address, state=State.READY):
    return SimpleNamespace(id=name, address=str(address), state=state)


def loop(revision, *instances, failed=0):
    capacity = Capacity()
    capacity.counts.failed = failed
    return SimpleNamespace(revision=revision, capacity=capacity, instances=instances)


async def answer(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + METRICS)
    writer.close()


def test_each_revision_is_told_and_who_does_not_answer_is_left_out(tmp_path):
    found = SimpleNamespace(
        loops=[
            loop("one", instance("a", tmp_path / "a"), instance("gone", tmp_path / "none"), failed=2),
            loop("two", instance("b", tmp_path / "a", State.STARTING)),
        ]
    )
    app = Starlette(routes=[route({"f": found}.__getitem__)])

    async def run():
        async with await asyncio.start_unix_server(answer, str(tmp_path / "a")):
            return await asyncio.to_thread(lambda: TestClient(app).get("/functions/f/counts").json())

    assert asyncio.run(run()) == {
        "one": {"failed": 2, "instances": {"a": METRICS.decode()}},
        "two": {"failed": 0, "instances": {}},
    }
