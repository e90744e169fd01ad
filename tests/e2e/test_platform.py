"""The one-box platform as a user has it: real processes, real sockets, the real command line."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from tests.e2e.conftest import environ, faas, take_down

WAIT_S = 30.0


def eventually(holds, within_s=WAIT_S):
    """Wait until `holds()` is true of other processes, which send no event: so it is looked at again and again."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found


def to_zero(box, name):
    assert box.run("scale", name, "0").returncode == 0


def test_from_zero_warm_and_back_to_zero_by_hand(box):
    to_zero(box, "echo")
    first = box.call("echo", {"a": [1, None]})
    assert (first.status_code, first.json()) == (200, {"a": [1, None]})
    assert first.headers["x-cold-start"] == "1"
    phases = {part.partition(";")[0].strip() for part in first.headers["server-timing"].split(",")}
    assert {"queue", "exec", "fork", "thaw", "activate"} <= phases
    second = box.call("echo", 1)
    assert second.headers["x-cold-start"] == "0"
    assert second.headers["x-instance-id"] == first.headers["x-instance-id"]
    to_zero(box, "echo")
    assert box.instances("echo") == []
    assert box.call("echo", 2).headers["x-cold-start"] == "1"


def test_a_call_that_waits_at_zero_stands_in_for_the_example_once_that_was_seen_to_be_brief(box):
    to_zero(box, "counts")
    assert box.call("counts", 0).json() == 2
    to_zero(box, "counts")
    assert box.call("counts", 0).json() == 1
    to_zero(box, "counts")
    assert box.run("scale", "counts", "1").returncode == 0
    eventually(lambda: [made["state"] for made in box.instances("counts")] == ["ready"])
    assert box.call("counts", 0).json() == 2


@pytest.mark.slow
def test_back_to_zero_by_the_window(box):
    box.call("echo", 1)
    eventually(lambda: box.function("echo")["instances"] == 0)
    assert box.call("echo", 1).headers["x-cold-start"] == "1"


def test_state_is_thawed_and_setup_did_not_run_in_the_instance(box):
    with box.client() as client:
        of_setup, own = client.post("/f/mean/pids", json=1).json()
    assert of_setup != own
    assert own == box.instances("mean")[0]["pid"]


def test_concurrent_callers_share_a_batch_and_a_bad_item_fails_alone(box):
    async def story():
        async with httpx.AsyncClient(base_url=box.url, timeout=30) as client:
            await client.post("/f/mean/", json=[1])
            rows = [[1, 2], [], [3], [4, 4], [5], [6]]
            return await asyncio.gather(*(client.post("/f/mean/", json=row) for row in rows))

    answers = asyncio.run(story())
    assert [a.status_code for a in answers] == [200, 422, 200, 200, 200, 200]
    assert [a.json() for a in answers if a.status_code == 200] == [1.5, 3.0, 4.0, 5.0, 6.0]
    assert "empty row" in answers[1].json()["detail"]
    assert max(int(a.headers["x-batch-size"]) for a in answers) > 1


def test_by_host_header_and_unknown_names(box):
    with box.client() as client:
        assert client.post("/", json=[2], headers={"host": "mean.example.com"}).json() == 2.0
        unknown = client.post("/f/meen/", json=[2])
        assert unknown.status_code == 404
        assert "did you mean 'mean'" in unknown.json()["detail"]
        assert client.get("/readyz").status_code == 200


def test_metrics_of_the_platform_and_of_an_instance(box):
    box.call("echo", 1)
    with box.client() as client:
        platform = client.get("/metrics").text
        instance = client.get("/f/echo/metrics").text
    of = f'function="echo",revision="{box.function("echo")["revision"]}"'
    assert f'faas_instances{{{of},state="ready"}} 1.0' in platform
    function, revision = of.split(",")
    for phase in ("total", "thaw"):
        assert f'faas_cold_start_seconds_count{{{function},phase="{phase}",{revision}}}' in platform
    assert 'faas_requests_total{function="echo"' in instance


def test_a_stream_comes_as_it_is_made(box):
    with (
        box.client() as client,
        client.stream("POST", "/f/ticks/", json={"n": 5}, headers={"accept": "text/event-stream"}) as answer,
    ):
        data = [line for line in answer.iter_lines() if line.startswith("data:")]
    assert data == [f"data: {i}" for i in range(5)]
    assert box.call("ticks", 3).json() == [0, 1, 2]


def test_a_caller_who_leaves_is_cancelled_in_the_instance(box):
    box.call("slow", 0)
    with box.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/f/slow/", json=1.9, headers={"x-request-id": "leaver"}, timeout=0.3)
    eventually(lambda: "cancelled leaver" in box.run("logs", "slow").stdout)


def test_the_time_out_is_the_functions(box):
    late = box.call("slow", 30)
    assert late.status_code == 504
    assert late.headers["content-type"] == "application/problem+json"


@pytest.mark.slow
def test_a_deaf_instance_is_given_up_and_replaced(box):
    box.call("slow", 0)
    deaf = next(i for i in box.instances("slow") if i["state"] == "ready")
    os.kill(deaf["pid"], signal.SIGSTOP)
    began = time.monotonic()
    late = box.call("slow", 0)
    assert late.status_code == 504
    assert time.monotonic() - began < 20
    assert box.call("slow", 0).json() == "slept"
    assert deaf["id"] not in [i["id"] for i in box.instances("slow")]


def test_functions_call_each_other(box):
    assert box.call("asks", [[1, 3], [5]]).json() == [2.0, 5.0]


@pytest.mark.parametrize("how", ["die", "abort", "exit"])
def test_fk_06_an_instance_that_dies_fails_its_own_call_and_is_replaced(box, how):
    assert box.call("dies", "well").json() == "well"

    async def story():
        async with httpx.AsyncClient(base_url=box.url, timeout=30) as client:
            began = time.monotonic()
            dead = await client.post("/f/dies/", json=how)
            took_s = time.monotonic() - began
            others = await asyncio.gather(*(client.post("/f/dies/", json=str(i)) for i in range(5)))
            assert [other.json() for other in others] == [str(i) for i in range(5)]
            return dead, took_s

    dead, took_s = asyncio.run(story())
    assert dead.status_code in (500, 502, 503)
    assert dead.headers["content-type"] == "application/problem+json"
    assert took_s < 10
    assert box.call("dies", "again").json() == "again"


def test_a_function_that_cannot_start_says_why_and_disturbs_no_other(box):
    answer = box.call("broken", 1)
    assert answer.status_code == 503
    assert "the model is not here" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) >= 1
    assert box.call("echo", 1).status_code == 200
    starts = box.function("broken")["starts"]
    for _ in range(20):
        assert box.call("broken", 1).status_code == 503
    assert box.function("broken")["starts"] - starts <= 3
    assert "the model is not here" in box.function("broken")["failure"]
    scaled = box.run("scale", "broken", "1")
    assert scaled.returncode == 1
    assert "error: not all are ready: " in scaled.stderr
    assert "the model is not here" in scaled.stderr


def test_bad_requests_disturb_nobody(box):
    with box.client() as client:
        assert client.post("/f/mean/", content=b"[1,").status_code == 400
        assert client.post("/f/mean/", json={"rowz": [1]}).status_code == 422
        assert client.get("/f/mean/").status_code == 405
        assert client.post("/f/mean/nothing", json=1).status_code == 404
        assert client.post("/f/mean/", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
        assert client.post("/f/mean/", json=[1]).json() == 1.0


@pytest.mark.slow
def test_requests_at_every_moment_of_scaling_are_answered(box):
    """A request that arrives while instances come and go is neither lost nor refused."""

    async def story():
        async with httpx.AsyncClient(base_url=box.url, timeout=60, limits=httpx.Limits(max_connections=50)) as client:
            sent = [asyncio.ensure_future(later(client, i)) for i in range(300)]
            changing = asyncio.ensure_future(change())
            answers = await asyncio.gather(*sent)
            await changing
            return answers

    async def later(client, i):
        await asyncio.sleep(i * 0.02)
        return await client.post("/f/echo/", json=i)

    async def change():
        transport = httpx.AsyncHTTPTransport(uds=str(box.home / "run" / "control.sock"))
        async with httpx.AsyncClient(transport=transport, base_url="http://control", timeout=60) as control:
            for turn in range(15):
                wanted = (0, 2, 1)[turn % 3]
                (await control.post("/functions/echo/scale", json={"instances": wanted})).raise_for_status()
                await asyncio.sleep(0.3)

    answers = asyncio.run(story())
    assert {a.status_code for a in answers} == {200}
    assert [a.json() for a in answers] == list(range(300))


def test_logs_hold_what_a_function_printed(box):
    box.call("slow", 0, headers={"x-request-id": "printed"})
    eventually(lambda: "sleeping printed" in box.run("logs", "slow").stdout)


def test_invoke_finds_the_platform(box):
    done = box.run("invoke", "mean", "--data", "[1, 2, 3]")
    assert (done.returncode, json.loads(done.stdout)) == (0, 2.0)
    wrong = box.run("invoke", "nobody", "--data", "1")
    assert wrong.returncode != 0
    assert "nobody" in wrong.stderr


def test_a_second_platform_on_the_same_home_is_refused(box, store):
    second = faas("up", str(box.home / "none.py"), "--port", "0", "--store", str(store), home=box.home)
    assert second.returncode != 0
    assert "faas down" in second.stderr


@pytest.mark.slow
def test_fk_04_signals_to_an_instance_never_reach_the_platform(box):
    to_zero(box, "echo")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
        box.call("echo", 1)
        made = next(i for i in box.instances("echo") if i["state"] == "ready")
        os.kill(made["pid"], number)
        assert [box.call("echo", i).status_code for i in range(20)] == [200] * 20
        eventually(lambda: made["id"] not in [other["id"] for other in box.instances("echo")])  # noqa: B023
    assert box.process.poll() is None


@pytest.mark.parametrize("num_instances", [1, 2])
def test_fk_04_a_call_that_a_dying_instance_never_read_goes_to_another(box, num_instances):
    with box.client() as client:
        for number in (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM) * 4:
            assert box.run("scale", "pids", str(num_instances)).returncode == 0
            pid = client.post("/f/pids/", json=0).json()
            os.kill(pid, number)  # in the same breath, on a connection that is open
            assert [client.post("/f/pids/", json=i).status_code for i in range(3)] == [200] * 3


@pytest.mark.slow
def test_nothing_grows_over_many_wake_ups(box):
    platform = psutil.Process(box.process.pid)

    def wake(times):
        transport = httpx.HTTPTransport(uds=str(box.home / "run" / "control.sock"))
        with httpx.Client(transport=transport, base_url="http://control") as control, box.client() as client:
            for i in range(times):
                assert client.post("/f/echo/", json=i).json() == i
                control.post("/functions/echo/scale", json={"instances": 0}).raise_for_status()

    def usage():
        return platform.num_fds(), platform.num_threads(), len(platform.children(recursive=True))

    wake(10)
    before = eventually(lambda: usage())
    wake(40)
    eventually(lambda: usage() <= before)


@pytest.mark.slow
def test_kill_9_of_the_platform_leaves_nothing_and_the_next_one_serves(another):
    made = another()
    assert made.call("echo", 1).status_code == 200
    family = psutil.Process(made.process.pid).children(recursive=True)
    made.process.kill()
    made.process.wait()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    again = another()
    assert again.call("echo", 1).status_code == 200
    take_down(again)


def test_down_drains_what_is_in_flight(another):
    made = another()

    async def story():
        async with httpx.AsyncClient(base_url=made.url, timeout=30) as client:
            await client.post("/f/slow/", json=0)
            call = asyncio.ensure_future(client.post("/f/slow/", json=1.0))
            await asyncio.sleep(0.3)
            down = await asyncio.to_thread(made.run, "down")
            return await call, down

    answer, down = asyncio.run(story())
    assert answer.json() == "slept"
    assert down.returncode == 0, down.stderr
    assert made.process.wait(20) == 0
    port = int(made.url.rpartition(":")[2])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert not (made.home / "run" / "control.sock").exists()


def test_a_platform_that_is_told_to_stop_while_it_comes_up_stops(tmp_path):
    (tmp_path / "app.py").write_text(
        "import time\nfrom faas import inference_function\ntime.sleep(60)\n"
        "@inference_function\ndef f(x: int) -> int:\n    return x\n"
    )
    command = [sys.executable, "-P", "-m", "faas.cli.main", "up", str(tmp_path / "app.py"), "--port", "0"]
    with subprocess.Popen(command, env=environ(tmp_path / "h"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "importing" in process.stderr.readline()
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) != 0
        _, alive = psutil.wait_procs(family, timeout=5)
        assert alive == []
