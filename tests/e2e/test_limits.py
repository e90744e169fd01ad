"""The limits of a function hold, whoever it is and whatever it does, and a caller is told which one it met."""

import asyncio
import os
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import bring_up, take_down
from tests.e2e.test_platform import eventually

pytestmark = pytest.mark.slow

GREEDY = Path(__file__).with_name("greedy.py")


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    made = bring_up(tmp_path_factory.mktemp("h"), str(GREEDY))
    try:
        yield made
    finally:
        if made.process.poll() is None:
            take_down(made)


def log_of(box, name):
    return box.run("logs", name).stdout


def test_an_instance_over_its_memory_is_ended_and_its_callers_are_told_why(box):
    first = box.call("hoards", 1)
    assert first.status_code == 200
    killed = box.call("hoards", 300)
    assert killed.status_code == 502
    assert "Resources(memory=...) allows 200 MiB" in killed.json()["detail"]
    assert "Resources(memory=...) allows 200 MiB" in log_of(box, "hoards")
    again = box.call("hoards", 1)
    assert again.status_code == 200
    assert again.json() != first.json()


def test_to_02_an_instance_that_grows_is_renewed_between_two_calls(box):
    """Each call leaks; more in all than an instance may hold, and none fails."""
    with box.client() as client:
        pids = set()
        for _ in range(400):
            answer = client.post("/f/leaks/", json=1)
            assert answer.status_code == 200, answer.text
            pids.add(answer.json())
            if len(pids) > 1:
                break
            time.sleep(0.05)  # a function that leaks faster than the guard looks is ended
    assert len(pids) > 1
    assert "the instance is renewed: it has grown" in log_of(box, "leaks")


def test_a_handler_that_never_ends_is_ended_with_its_instance(box):
    pid = box.call("loops", False).json()
    stuck = box.call("loops", True)
    assert stuck.status_code == 504
    assert "replaced if it does not end soon" in stuck.json()["detail"]
    eventually(lambda: pid not in [made["pid"] for made in box.instances("loops")])
    assert box.call("loops", False).status_code == 200
    assert "while for_ever" in eventually(lambda: log_of(box, "loops"))
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a processor to be kept from")
def test_one_that_takes_more_than_its_processors_is_held_to_them(box):
    assert len(box.call("spins", 0).json()) > 1
    held = box.call("spins", 4).json()
    assert len(held) == 1


def test_more_calls_than_may_wait_are_refused_at_once_and_the_others_answered(box):
    async def story():
        async with httpx.AsyncClient(base_url=box.url, timeout=30) as client:
            return await asyncio.gather(*(client.post("/f/narrow/", json=0.3) for _ in range(12)))

    answers = asyncio.run(story())
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429)
    assert box.call("narrow", 0).status_code == 200


def test_kn_07_a_burst_at_a_cold_function_is_answered_or_refused_and_never_reset(box):
    async def story():
        limits = httpx.Limits(max_connections=300)
        async with httpx.AsyncClient(base_url=box.url, timeout=60, limits=limits) as client:
            assert box.run("scale", "narrow", "0").returncode == 0
            return await asyncio.gather(*(client.post("/f/narrow/", json=0.01) for _ in range(300)))

    answers = asyncio.run(story())
    assert {answer.status_code for answer in answers} <= {200, 429, 503}
    assert 200 in [answer.status_code for answer in answers]
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code != 200)
    assert box.call("narrow", 0).status_code == 200


def test_a_body_over_the_limit_is_refused_and_the_next_one_served(box):
    assert box.call("small", "x" * 2000).status_code == 413
    assert box.call("small", "x" * 200).status_code == 200


def test_a_crash_loop_backs_off_and_disturbs_no_other(box):
    """Another function's calls are answered meanwhile, nearly as fast as without."""

    def p99(seconds):
        took = []
        until = time.monotonic() + seconds
        with box.client() as client:
            while time.monotonic() < until:
                began = time.monotonic()
                assert client.post("/f/calm/", json=1).status_code == 200
                took.append(time.monotonic() - began)
        return sorted(took)[int(len(took) * 0.99)]

    async def story():
        alone = await asyncio.to_thread(p99, 2.0)
        async with httpx.AsyncClient(base_url=box.url, timeout=30) as client:
            beside = asyncio.ensure_future(asyncio.to_thread(p99, 3.0))
            crashed = []
            while not beside.done():
                crashed.append(await client.post("/f/crashes/", json=1))
                await asyncio.sleep(0.01)
            return alone, await beside, crashed

    starts = box.function("crashes")["starts"]
    alone, beside, crashed = asyncio.run(story())
    assert {answer.status_code for answer in crashed} == {503}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in crashed)
    assert "status 7" in crashed[-1].json()["detail"]
    assert box.function("crashes")["starts"] - starts <= 5
    print(f"p99 {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside a crash loop")
    assert beside < alone + 0.5, "the platform stood still"
