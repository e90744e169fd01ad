"""Variants and feedback as callers see them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from faas import Batching, Cache, Function, Selection, inference_function, variant
from tests.server.answers import problem

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAAS_HOME", str(tmp_path))
    return tmp_path


def animals(selection: Selection, **settings: Any) -> Function:
    @inference_function(name="animals", selection=selection, **settings)
    class Animals:
        @variant()
        async def cat(self, x: int) -> str:
            return "cat"

        @variant
        def dog(self, x: int) -> str:
            return "dog"

        @variant()
        async def hound(self, x: int) -> str:
            if x == 0:
                await asyncio.Event().wait()
            return "dog"

    found: Function = Animals
    return found


async def test_s4_the_answer_names_the_variant(serving):
    async with serving(animals(Selection(policy="exp3"))) as served:
        for _ in range(20):
            response = await served.post(1)
            named = response.headers["x-model-variant"]
            assert response.json() == {"cat": "cat", "dog": "dog", "hound": "dog"}[named]
        counts = [await served.value("faas_variant_requests_total", variant=name) for name in ("cat", "dog", "hound")]
        assert sum(counts) == 20


async def test_exp3_learns_from_feedback(serving):
    async with serving(animals(Selection(policy="exp3", eta=0.5))) as served:
        for _ in range(60):
            response = await served.post(1)
            loss = float(response.headers["x-model-variant"] != "cat")
            said = {"request_id": response.headers["x-request-id"], "loss": loss}
            assert (await served.post(said, "/feedback")).status_code == 204
        shares = {name: await served.value("faas_variant_share", variant=name) for name in ("cat", "dog", "hound")}
        assert shares["cat"] == max(shares.values())
        assert await served.value("faas_feedback_total", outcome="used") == 60


async def test_exp4_votes_and_says_how_sure_it_is(serving):
    async with serving(animals(Selection(policy="exp4", default="?", min_confidence=0.5))) as served:
        response = await served.post(1)
        assert response.json() == "dog"
        assert response.headers["x-model-variant"] == "dog,hound"
        assert response.headers["x-confidence"] == "0.667"
        assert "x-default-answer" not in response.headers
        said = {"request_id": response.headers["x-request-id"], "label": "cat"}
        assert (await served.post(said, "/feedback")).status_code == 204
        assert await served.value("faas_variant_share", variant="cat") > 1 / 3


async def test_k1_an_ensemble_is_not_waited_for_beyond_the_deadline(serving):
    async with serving(animals(Selection(policy="exp4", default="?", min_confidence=0.5))) as served:
        began = time.monotonic()
        response = await served.post(0, headers={"X-Request-Timeout-Ms": "100"})
        assert time.monotonic() - began < 10
        assert response.status_code == 200
        assert response.json() == "?"  # a cat and a dog: one of three is too few
        assert response.headers["x-confidence"] == "0.333"
        assert response.headers["x-default-answer"] == "confidence"
        assert await served.value("faas_default_answers_total", reason="confidence") == 1


async def test_k3_feedback_that_cannot_be_read_says_why(serving):
    async with serving(animals(Selection(policy="exp3"))) as served:
        problem(await served.post(content=b"{x", path="/feedback"), 400)
        assert problem(await served.post({"request_id": "a", "loss": 2}, "/feedback"), 422)["field"] == "$.loss"
        assert problem(await served.post({"loss": 1}, "/feedback"), 422)["field"] == "$.request_id"
        assert problem(await served.post({"request_id": "a", "los": 1}, "/feedback"), 422)["field"] == "$.los"
        assert problem(await served.post({"request_id": "a", "losses": {}}, "/feedback"), 422)["field"] == "$.losses"
        unknown = problem(await served.post({"request_id": "a", "loss": 1}, "/feedback"), 404)
        assert unknown["type"].endswith("unknown-request")
        assert (await served.client.get("/feedback")).status_code == 405
        assert await served.value("faas_feedback_total", outcome="unknown") == 1


async def test_without_learning_there_is_no_feedback(serving):
    @inference_function
    def one(x: int) -> int:
        return x

    async with serving(one) as served:
        problem(await served.post({"request_id": "a", "loss": 1}, "/feedback"), 404)


async def test_the_schema_tells_of_feedback(serving):
    async with serving(animals(Selection(policy="exp4"))) as served:
        told = (await served.client.get("/openapi.json")).json()
        assert "/feedback" in told["paths"]
        assert told["components"]["schemas"]["Feedback"]["required"] == ["request_id"]
        assert told["paths"]["/"]["post"]["operationId"] == "cat"


async def test_users_have_weights_of_their_own(serving):
    async with serving(animals(Selection(policy="exp4", eta=5.0, context="X-User"))) as served:
        ann = {"X-User": "ann"}
        response = await served.post(1, headers=ann)
        said = {"request_id": response.headers["x-request-id"], "label": "cat"}
        assert (await served.post(said, "/feedback")).status_code == 204
        assert (await served.post(1, headers=ann)).json() == "cat"
        assert (await served.post(1)).json() == "dog"


async def test_what_was_learned_survives_a_restart(serving, home):
    function = animals(Selection(policy="exp4", eta=5.0))
    async with serving(function) as served:
        response = await served.post(1)
        await served.post({"request_id": response.headers["x-request-id"], "label": "cat"}, "/feedback")
    assert (home / "selection" / "animals.exp4.json").exists()
    async with serving(function) as served:
        assert (await served.post(1)).json() == "cat"


async def test_a_variant_answers_from_the_cache_and_feedback_reaches_it(serving):
    async with serving(animals(Selection(policy="exp4"), cache=Cache())) as served:
        first, second = await served.post(1), await served.post(1)
        assert first.json() == second.json() == "dog"
        assert [first.headers["x-cache"], second.headers["x-cache"]] == ["miss", "hit"]
        assert await served.value("faas_cache_misses_total") == 3
        assert await served.value("faas_cache_hits_total") == 3
        said = {"request_id": second.headers["x-request-id"], "label": "cat"}
        assert (await served.post(said, "/feedback")).status_code == 204


async def test_the_examples_warm_every_variant(serving):
    seen: list[str] = []

    @inference_function(warmup=[1], batching=Batching(slo_ms=1_000), selection=Selection(policy="slack"))
    class Two:
        @variant(accuracy=0.9)
        def large(self, xs: list[int]) -> list[int]:
            seen.append("large")
            return xs

        @variant(accuracy=0.8)
        def small(self, xs: list[int]) -> list[int]:
            seen.append("small")
            return xs

    async with serving(Two):
        assert sorted(seen) == ["large", "small"]


LARGE_S, SMALL_S = 0.03, 0.001


@contextlib.asynccontextmanager
async def switched(serving: Any, floor: float = 0.0) -> AsyncIterator[Any]:
    """Two plain variants of which one takes long, and a promise of 0.6 s."""

    @inference_function(
        batching=Batching(max_batch_size=2, slo_ms=600, wait_ms=0),
        selection=Selection(policy="slack", accuracy_floor=floor),
        warmup=[1],
    )
    class Two:
        @variant(accuracy=0.9)
        def small(self, xs: list[int]) -> list[int]:
            time.sleep(SMALL_S * len(xs))
            return xs

        @variant(accuracy=0.95)
        def large(self, xs: list[int]) -> list[int]:
            time.sleep(LARGE_S * len(xs))
            return xs

    async with serving(Two) as served:
        for _ in range(5):
            assert (await served.post(1)).headers["x-model-variant"] == "large"
        yield served


async def test_s1_to_s4_over_http_a_burst_goes_to_the_fast_variant_and_calm_back_to_the_best(serving):
    async with switched(serving) as served:
        burst = await asyncio.gather(*(served.post(number) for number in range(60)))
        named = [response.headers["x-model-variant"] for response in burst if response.status_code == 200]
        assert named.count("small") > named.count("large") > 0
        assert len(named) > 40
        async with asyncio.timeout(30):
            while (await served.post(1)).headers["x-model-variant"] != "large":
                await asyncio.sleep(0.1)


async def test_s5_over_http_below_the_floor_nothing_answers(serving):
    async with switched(serving, floor=0.93) as served:
        burst = await asyncio.gather(*(served.post(number) for number in range(60)))
        assert {response.headers["x-model-variant"] for response in burst} == {"large"}
        assert {response.status_code for response in burst} == {200, 429}
        assert all(int(response.headers["retry-after"]) >= 1 for response in burst if response.status_code == 429)
