"""SIGTERM to a platform: what is under way is answered, whatever it is at, within the grace period."""

import asyncio
import shutil
import signal
import textwrap
import time

import httpx
import psutil
import pytest

from tests.e2e.conftest import bring_up, faas
from tests.e2e.test_platform import eventually

pytestmark = pytest.mark.slow

APP = """
    import asyncio
    import time
    from collections.abc import AsyncIterator
    from faas import Scaling, inference_function

    @inference_function(scaling=Scaling(max_instances=1))
    async def ticks(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i
            await asyncio.sleep(0.05)

    @inference_function(scaling=Scaling(max_instances=1))
    def slow(seconds: float) -> str:
        time.sleep(seconds)
        return "slept"

    @inference_function(snapshot="off", scaling=Scaling(max_instances=1))
    class Late:
        def setup(self) -> None:
            time.sleep(1.5)
        def predict(self, x: int) -> int:
            return x

"""


@pytest.fixture
def box(tmp_path):
    code = tmp_path / "app.py"
    code.write_text(textwrap.dedent(APP))
    made = bring_up(tmp_path / "h", *(f"{code}:{name}" for name in ("ticks", "slow", "Late")))
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def test_streams_calls_and_those_who_wait_for_an_instance_that_starts_are_answered(box):
    async def story():
        async with httpx.AsyncClient(base_url=box.url, timeout=60) as client:
            stream = asyncio.ensure_future(client.post("/f/ticks/", json=40, headers={"accept": "text/event-stream"}))
            call = asyncio.ensure_future(client.post("/f/slow/", json=1.5))
            held = asyncio.ensure_future(client.post("/f/late/", json=7))
            await asyncio.to_thread(eventually, lambda: box.function("late")["starts"] == 1)
            family = psutil.Process(box.process.pid).children(recursive=True)
            box.process.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(stream, call, held)
            with pytest.raises(httpx.ConnectError):
                await client.post("/f/slow/", json=0)
            return answers, family

    (stream, call, held), family = asyncio.run(story())
    assert [line for line in stream.text.splitlines() if line.startswith("data:")] == [f"data: {i}" for i in range(40)]
    assert (call.json(), held.json()) == ("slept", 7)
    assert box.process.wait(60) == 0
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []


def test_kn_01_a_proxy_that_is_slow_to_hear_of_the_end_is_answered(tmp_path):
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    box = bring_up(tmp_path / "h", f"{tmp_path / 'app.py'}:slow", env={"FAAS_LAME_DUCK_S": "3"})
    try:
        assert box.call("slow", 0).status_code == 200
        began = time.monotonic()
        box.process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{box.url}/readyz").status_code == 503)
        while time.monotonic() < began + 2:
            assert box.call("slow", 0).status_code == 200  # each on a connection of its own
            time.sleep(0.05)
        assert box.process.wait(60) == 0
    finally:
        if box.process.poll() is None:
            box.process.kill()
            box.process.wait()


def test_a_home_that_was_moved_ends_with_its_platform(box, tmp_path):
    """`faas down` finds the platform by what it holds, wherever its folder is by now."""
    shutil.move(box.home, tmp_path / "moved")
    down = faas("down", home=tmp_path / "moved")
    assert down.returncode == 0, down.stderr
    assert "has ended" in down.stdout
    assert box.process.wait(60) == 0
