"""A cache as its callers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from faas import BadInput, Batching, Cache, endpoint, inference_function
from tests.engine.versions.rig import Bench
from tests.server.answers import echo, problem
from tests.server.test_versions import function, served

pytestmark = pytest.mark.anyio


async def test_an_answer_says_whether_it_was_kept(serving):
    calls: list[int] = []

    @inference_function(batching=Batching(max_batch_size=4), cache=Cache())
    def double(xs: list[int]) -> list[int]:
        calls.extend(xs)
        return [2 * x for x in xs]

    async with serving(double) as instance:
        first, again, other = [await instance.post(x) for x in (1, 1, 2)]
        assert [r.headers["x-cache"] for r in (first, again, other)] == ["miss", "hit", "miss"]
        assert [r.json() for r in (first, again, other)] == [2, 2, 4]
        assert calls == [1, 2]
        assert "server-timing" in first.headers
        assert "server-timing" not in again.headers  # nothing was computed
        assert again.headers["x-instance-id"] == "i-1"
        assert await instance.value("faas_requests_total", outcome="ok") == 3
        assert await instance.value("faas_queue_seconds_count") == 2


async def test_c6_hits_misses_and_bytes_are_counted(serving):
    async with serving(echo.with_options(cache=Cache(max_bytes="10Ki"))) as instance:
        for value in ("a", "a", "b" * 20_000, "b" * 20_000, "a"):
            assert (await instance.post(value)).json() == value
        assert await instance.value("faas_cache_hits_total") == 2
        assert await instance.value("faas_cache_misses_total") == 3
        assert 0 < await instance.value("faas_cache_bytes") < 1_000


async def test_without_a_cache_there_is_no_word_of_one(serving):
    async with serving(echo) as instance:
        assert "x-cache" not in (await instance.post(1)).headers
        assert "faas_cache" not in (await instance.client.get("/metrics")).text
        assert "faas_variant" not in (await instance.client.get("/metrics")).text


async def test_ca_01_each_form_of_an_input_is_its_own(serving):
    @inference_function(cache=Cache())
    def form(x: Any) -> str:
        return repr(x)

    async with serving(form) as instance:
        for content in ("[1,2]", "[1.0,2.0]", '"1,2"', "[[1,2]]", '{"x":[1,2]}', '{"x":{"a":1,"b":2}}'):
            response = await instance.post(content=content.encode())
            if content == '{"x":[1,2]}':  # a parameter of any type takes the body as it is
                assert response.json() == "{'x': [1, 2]}"
            assert response.headers["x-cache"] == "miss"
        turned = await instance.post(content=b'{"x":{"b":2,"a":1}}')
        assert turned.headers["x-cache"] == "hit"


async def test_endpoints_do_not_answer_for_each_other(serving):
    @inference_function(cache=Cache())
    class Two:
        def predict(self, x: int) -> int:
            return x

        @endpoint("/double")
        def double(self, x: int) -> int:
            return 2 * x

        @endpoint("/count")
        def count(self, x: int) -> Iterator[int]:
            yield from range(x)

    async with serving(Two) as instance:
        for _ in range(2):
            assert [(await instance.post(3, path)).json() for path in ("/", "/double", "/count")] == [3, 6, [0, 1, 2]]
        assert (await instance.post(3, "/double")).headers["x-cache"] == "hit"
        assert "x-cache" not in (await instance.post(3, "/count")).headers


async def test_ca_01_a_new_version_gives_no_answer_of_an_old_one(serving):
    made = function(cache=Cache())
    bench = Bench(made, 1)
    async with served(serving, bench, made) as instance:
        for said in ("miss", "hit"):
            answer = await instance.post(7)
            assert (answer.json(), answer.headers["x-model-version"], answer.headers["x-cache"]) == (1, "1", said)
        bench.put(2)
        await instance.runtime.versions.follow()
        for said in ("miss", "hit"):
            answer = await instance.post(7)
            assert (answer.json(), answer.headers["x-model-version"], answer.headers["x-cache"]) == (2, "2", said)


async def test_c5_errors_are_not_kept(serving):
    calls: list[int] = []

    @inference_function(cache=Cache())
    def refuse(x: int) -> int:
        calls.append(x)
        raise BadInput("no")

    async with serving(refuse) as instance:
        answers = await asyncio.gather(*(instance.post(1) for _ in range(3)))
        assert {problem(answer, 422)["detail"] for answer in answers} == {"no"}
        problem(await instance.post(1), 422)
        assert len(calls) >= 2


async def test_a_cached_stream_of_one_says_so_too(serving):
    async with serving(echo.with_options(cache=Cache())) as instance:
        for said in ("miss", "hit"):
            response = await instance.post(1, headers={"Accept": "text/event-stream"})
            assert response.text == "data: 1\n\n"
            assert response.headers["x-cache"] == said
