import asyncio
import contextlib
import json

import httpx
import pytest

from faas.platform.page import server as module
from faas.platform.page.access import Access
from faas.platform.page.history import Sample
from tests.platform.page.conftest import instance, served

TOKEN = "t" * 20


class Events:
    """Reads an event stream."""

    def __init__(self, answer):
        self._lines = answer.aiter_lines()

    async def next(self):
        name = None
        async for line in self._lines:
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                return name, json.loads(line[6:])
        raise AssertionError("the stream has ended")

    async def until(self, wanted, fits=lambda _: True):
        while True:
            name, value = await self.next()
            if name == wanted and fits(value):
                return value

    async def ends(self):
        async for _ in self._lines:
            pass


@contextlib.asynccontextmanager
async def looking(site, path="/-/events", **headers):
    async with (
        httpx.AsyncClient(base_url=site.url, timeout=10) as client,
        client.stream("GET", path, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        yield Events(answer)


async def get(site, path, **headers):
    async with httpx.AsyncClient(base_url=site.url, timeout=10) as client:
        return await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


async def test_the_page_and_its_parts_need_nothing_from_elsewhere(tmp_path):
    async with served(tmp_path) as site:
        answer = await get(site, "/-/")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "://" not in answer.text
        for part in ("page.css", "main.js", "call.js", "charts.js", "detail.js", "form.js", "stream.js"):
            found = await get(site, f"/-/{part}")
            assert found.status_code == 200
            assert found.headers["x-content-type-options"] == "nosniff"
            unchanged = await get(site, f"/-/{part}", if_none_match=found.headers["etag"])
            assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert (await get(site, "/-/../main.py")).status_code == 404
        assert (await get(site, "/-/nothing")).json()["detail"].endswith("the page is at /-/")


async def test_the_root_leads_browsers_to_the_page_and_lists_for_others(tmp_path):
    async with served(tmp_path) as site:
        site.source.add("b")
        site.source.add("a")
        browser = await get(site, "/", accept="text/html,*/*;q=0.8")
        assert (browser.status_code, browser.headers["location"]) == (307, "-/")
        assert browser.headers["vary"] == "accept"
        assert (await get(site, "/", accept="*/*")).json() == {"functions": ["/f/a/", "/f/b/"]}


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"sec_fetch_site": "cross-site"}, {"host": "127.0.0.1.evil.example", "origin": "null"}],
)
async def test_what_a_platform_does_is_told_to_no_page_of_another_site(tmp_path, headers):
    async with served(tmp_path) as site:
        site.source.add("secret")
        answer = await get(site, "/-/events?function=secret", **headers)
        assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
        assert "access-control-allow-origin" not in answer.headers


async def test_beyond_loopback_the_token_is_needed(tmp_path):
    async with served(tmp_path, Access(is_loopback=False, token=TOKEN)) as site:
        site.source.add("f")
        refused = await get(site, "/-/events")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        async with looking(site, authorization=f"Bearer {TOKEN}") as events:
            assert (await events.until("functions"))["rows"][0]["name"] == "f"
        assert (await get(site, "/-/")).status_code == 200


async def test_nothing_on_the_page_changes_anything(tmp_path):
    async with served(tmp_path) as site, httpx.AsyncClient(base_url=site.url) as client:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await client.request(method, "/-/events")).status_code == 405
            assert (await client.request(method, "/-/")).status_code == 405


async def test_all_functions_at_first_and_then_those_that_change(tmp_path):
    async with served(tmp_path) as site:
        site.source.add("a")
        site.source.add("b")
        site.remember("b", Sample(int(site.history.clock()) + 1, 0, 0, 0, 0, 0, 3, 0))
        async with looking(site) as events:
            first = await events.until("functions")
            assert [row["name"] for row in first["rows"]] == ["a", "b"]
            assert first["rows"][1]["samples"][-1][6] == 3
            site.source.add("b", requests=4)
            del site.source.rows["a"]
            site.history.tell()
            second = await events.until("functions")
            assert [(row["name"], row["requests"]) for row in second["rows"]] == [("b", 4)]
            assert "samples" not in second["rows"][0]
            assert second["gone"] == ["a"]


async def test_one_function_in_full_with_its_log(tmp_path):
    async with served(tmp_path) as site:
        site.source.add("f", instance("f-1"), ready=1)
        site.source.logs["f"].write("f-1", "before")
        async with looking(site, "/-/events?function=f") as events:
            told = await events.until("function")
            assert told["row"]["all_instances"][0]["id"] == "f-1"
            assert (told["starts"], told["meters"]) == ([], {"histograms": {}, "instances": {}})
            assert [line["text"] for line in (await events.until("log"))["lines"]] == ["before"]
            site.source.logs["f"].write("f-1", "after", "<b>")
            assert [line["text"] for line in (await events.until("log"))["lines"]] == ["after", "<b>"]
            site.source.add("f", instance("f-1", age_s=2.0), ready=1, requests=1)
            site.history.tell()
            assert (await events.until("function", lambda told: "row" in told))["row"]["requests"] == 1


async def test_time_that_passes_is_no_change(tmp_path):
    async with served(tmp_path) as site:
        site.source.add("f", instance("f-1", age_s=1.0), ready=1)
        async with looking(site, "/-/events?function=f") as events:
            await events.until("function")
            site.source.all_instances["f"][0]["age_s"] = 9.0
            site.history.tell()
            site.source.logs["f"].write("f-1", "a line")
            assert (await events.next())[0] == "log"


async def test_a_function_that_is_not_there_or_goes_is_told_once(tmp_path):
    async with served(tmp_path) as site, looking(site, "/-/events?function=g") as events:
        assert "no function 'g'" in (await events.until("missing"))["detail"]
        site.source.add("g")
        site.history.tell()
        assert (await events.until("function"))["row"]["name"] == "g"
        del site.source.rows["g"]
        site.history.tell()
        await events.until("missing")


async def test_a_reader_that_leaves_leaves_nothing(tmp_path):
    async with served(tmp_path) as site:
        site.source.add("f")
        async with looking(site, "/-/events?function=f") as events:
            await events.until("function")
            assert site.history.num_watchers == 1
            assert site.source.logs["f"].num_followers == 1
        async with asyncio.timeout(10):
            while site.history.num_watchers or site.source.logs["f"].num_followers:
                await asyncio.sleep(0.01)
        assert site.registry.page.concurrency.current == 0


async def test_streams_end_with_the_platform_and_hold_nothing_up(tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(served(tmp_path))
        async with looking(site) as events:
            await events.until("functions")
            ended = asyncio.ensure_future(events.ends())
            async with asyncio.timeout(4):
                await stack.aclose()
                await ended


async def test_so_many_may_look_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_READERS", 1)
    async with served(tmp_path) as site, looking(site) as events:
        await events.until("functions")
        refused = await get(site, "/-/events")
        assert (refused.status_code, "close one" in refused.json()["detail"]) == (503, True)
