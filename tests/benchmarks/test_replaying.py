"""Calls of a trace are sent when they are due, and what they met is counted."""

import asyncio

import pytest
from aiohttp import web

from benchmarks.replaying import replay
from faas.platform.simulation import Call


class FakeBox:
    """A platform of one instance, whose first answer is cold and whose last one fails."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url_of(self, name: str) -> str:
        return f"{self._url}/f/{name}/"

    async def all_instances(self) -> list[dict[str, str]]:
        return [{"id": "one"}]


async def replayed(calls: dict[str, list[Call]], until_s: float) -> tuple[object, list[float]]:
    sent: list[float] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(await request.json())
        headers = {"X-Cold-Start": "1" if len(sent) == 1 else "0"}
        return web.Response(status=500 if request.match_info["name"] == "bad" else 200, headers=headers)

    app = web.Application()
    app.router.add_post("/f/{name}/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        box = FakeBox(f"http://127.0.0.1:{runner.addresses[0][1]}")
        began_at = asyncio.get_running_loop().time()
        return await replay(box, calls, began_at=began_at, until_s=until_s), sent  # type: ignore[arg-type]
    finally:
        await runner.cleanup()


def test_calls_are_counted_by_what_they_met():
    calls = {"good": [Call(0.0, 0.25), Call(0.3, 0.5), Call(9.0, 1.0)], "bad": [Call(0.1, 0.75)]}
    toll, sent = asyncio.run(replayed(calls, until_s=0.5))
    assert sent == [0.25, 0.75, 0.5], "the last comes after the end"
    assert (toll.num_calls, toll.num_cold, toll.num_failed) == (3, 1, 1)
    assert toll.cold_share == pytest.approx(1 / 3)
    assert 0.2 <= toll.instance_s < 5.0, "one instance, seen every 0.2 s"
    assert len(toll.late_s) == 3
