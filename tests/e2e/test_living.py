"""A platform that is changed while calls flow: no call fails by a deployment, a share, a rollback or a deletion."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import textwrap
from collections import Counter

import httpx
import pytest

from tests.e2e.conftest import bring_up, take_down

APP = """
    import asyncio, sys
    from pathlib import Path
    from faas import Scaling, inference_function

    NOTE = Path(__file__).with_name("note.txt").read_text()

    @inference_function(scaling=Scaling(scaledown_window_s=6, max_instances=2))
    async def say(x: float) -> str:
        print("called")
        await asyncio.sleep(x)
        return "VERSION " + NOTE
"""
BROKEN = """
    import os
    from faas import inference_function

    @inference_function(snapshot="off")
    class Say:
        def setup(self) -> None:
            if "FAAS_PLATFORM_SOCKET" in os.environ:
                raise RuntimeError("the model is not here")
        def predict(self, x: float) -> str:
            return "broken"
"""


@pytest.fixture
def living(tmp_path):
    """A function in a file that can be rewritten, and a platform that serves it; and the next one, on the same home."""
    made = Living(tmp_path)
    made.write("one")
    made.up(str(made.file))
    yield made
    if made.box.process.poll() is None:
        take_down(made.box)


class Living:
    def __init__(self, folder):
        self.home = folder / "h"
        self.file = folder / "app" / "app.py"
        self.file.parent.mkdir()
        (self.file.parent / "note.txt").write_text("noted")

    def write(self, version, text=APP):
        self.file.write_text(textwrap.dedent(text).replace("VERSION", version))

    def up(self, *targets):
        self.box = bring_up(self.home, *targets)

    def run(self, *arguments):
        done = self.box.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def deploy(self, *options):
        self.run("deploy", "--local", str(self.file), *options)
        return self.described()["all_revisions"][0]["revision"]

    def described(self):
        return json.loads(self.run("describe", "say", "--json"))

    def kill(self):
        os.kill(self.box.process.pid, signal.SIGKILL)
        self.box.process.wait()

    def said(self, path="/f/say/", **settings):
        with self.box.client() as client:
            answer = client.post(path, json=0, **settings)
        return answer.json() if answer.status_code == 200 else answer.status_code

    def while_calls_flow(self, change, num_clients=4):
        """Call without a pause while `change` runs in a thread; returns the answers, all of which are good."""

        async def call(client, answers, done):
            while not done.is_set():
                answer = await client.post("/f/say/", json=0.01)
                answers.append((answer.status_code, answer.text, answer.headers.get("x-model-version")))

        async def story():
            answers, done = [], asyncio.Event()
            async with httpx.AsyncClient(base_url=self.box.url, timeout=60) as client:
                callers = [asyncio.ensure_future(call(client, answers, done)) for _ in range(num_clients)]
                try:
                    await asyncio.to_thread(change)
                finally:
                    done.set()
                    await asyncio.gather(*callers)
            return answers

        answers = asyncio.run(story())
        assert Counter(status for status, _, _ in answers) == {200: len(answers)}
        return answers


def test_a_new_revision_takes_over_and_no_call_fails(living):
    living.said()

    def change():
        living.write("two")
        living.deploy()

    answers = living.while_calls_flow(change)
    assert {text for _, text, _ in answers} >= {'"one noted"'}
    assert living.said() == "two noted"
    newest, oldest = living.described()["all_revisions"]
    assert (newest["percent"], newest["number"]) == (100, 2)
    assert (oldest["percent"], oldest["state"] in ("kept", "draining")) == (0, True)
    assert {version for _, _, version in answers} <= {newest["revision"], oldest["revision"]}


@pytest.mark.slow
def test_what_has_not_changed_is_no_new_revision(living):
    before = living.described()["all_revisions"]
    living.deploy()
    assert [r["revision"] for r in living.described()["all_revisions"]] == [r["revision"] for r in before]


@pytest.mark.slow
def test_a_revision_that_does_not_start_takes_nothing_over(living):
    living.said()

    def change():
        living.write("", BROKEN)
        failed = living.box.run("deploy", "--local", str(living.file))
        assert failed.returncode == 1
        assert "the model is not here" in failed.stderr

    living.while_calls_flow(change)
    assert living.said() == "one noted"
    assert len(living.described()["all_revisions"]) == 1


@pytest.mark.slow
def test_shares_tags_and_rollback_while_calls_flow(living):
    first = living.described()["all_revisions"][0]["revision"]
    living.write("two")
    second = living.deploy("--no-traffic", "--tag", "next")
    assert living.said() == "one noted"
    for path, headers in (
        ("/f/say@next/", {}),
        ("/f/say/", {"x-faas-tag": "next"}),
        ("/f/say/", {"knative-serving-tag": "next"}),
        ("/", {"host": "next-say.example.com"}),
    ):
        assert living.said(path, headers=headers) == "two noted"
    assert living.said("/f/say@nxt/") == 404

    answers = living.while_calls_flow(lambda: living.run("traffic", "say", "--to", "latest=25", "--to", f"{first}=75"))
    with living.box.client() as client:
        split = Counter(client.post("/f/say/", json=0).headers["x-model-version"] for _ in range(100))
    assert split == {second: 25, first: 75}
    living.while_calls_flow(lambda: living.run("promote", "say"))
    assert living.said() == "two noted"
    answers = living.while_calls_flow(lambda: living.run("rollback", "say"))
    assert {text for _, text, _ in answers} <= {'"one noted"', '"two noted"'}
    assert living.said() == "one noted"
    assert living.said("/f/say@next/") == "two noted"
    nothing = living.box.run("rollback", "say")
    assert (nothing.returncode, "older" in nothing.stderr) == (1, True)


@pytest.mark.slow
def test_old_code_runs_as_it_was_deployed_whatever_the_file_says(living):
    living.write("two")
    living.deploy()
    living.file.write_text("this is no Python\n")
    assert living.said() == "two noted"
    living.run("rollback", "say")
    assert living.said() == "one noted"
    living.run("scale", "say", "0")
    assert living.said() == "one noted"


@pytest.mark.slow
def test_killed_and_started_again_everything_is_back(living):
    first = living.described()["all_revisions"][0]["revision"]
    living.write("two")
    second = living.deploy("--tag", "next")
    living.run("traffic", "say", "--to", f"{first}=60", "--to", "next=40")
    left = os.readlink(living.home / "run" / "sockets")
    living.kill()
    living.file.unlink()
    living.up()
    assert not os.path.exists(left)
    found = living.described()
    assert found["traffic"] == {first: 60, second: 40}
    assert found["tags"] == {"next": second}
    assert {living.said() for _ in range(10)} == {"one noted", "two noted"}
    take_down(living.box)
    assert not (living.home / "run" / "sockets").is_symlink()
    living.up()
    assert living.described()["traffic"] == {first: 60, second: 40}


@pytest.mark.slow
def test_what_cannot_come_back_is_named_and_left_out(living):
    first = living.described()["all_revisions"][0]
    living.write("two")
    second = living.deploy()
    take_down(living.box)
    state = json.loads((living.home / "platform" / "say.json").read_text())
    code = state["revisions"]["deployments"][1]["preparation"]["code"]
    os.unlink(code.rpartition(":")[0])
    (living.home / "platform" / "other.json").write_text("{")
    living.up()
    told = (living.home / "up.log").read_text()
    assert f"say: revision {second} is left out: its code" in told
    assert "other.json cannot be read" in told
    assert living.described()["traffic"] == {first["revision"]: 100}
    assert living.said() == "one noted"


@pytest.mark.slow
def test_after_an_upgrade_a_function_is_made_ready_anew_if_its_code_is_as_it_was(living):
    take_down(living.box)
    for path in (living.home / "platform" / "say.json", living.home / "snapshots" / "say.json"):
        path.write_text(re.sub(r'("python":\s*")[^"]*', r"\g<1>2.7.18", path.read_text()))
    living.up()
    assert "is left out: Python was 2.7.18" in (living.home / "up.log").read_text()
    assert living.said() == "one noted"
    assert len(living.described()["all_revisions"]) == 1
    assert living.described()["all_revisions"][0]["target"].startswith(str(living.file))


@pytest.mark.slow
def test_a_deleted_function_answers_what_it_has_and_is_not_found_afterwards(living):
    living.said()

    async def story():
        async with httpx.AsyncClient(base_url=living.box.url, timeout=30) as client:
            call = asyncio.ensure_future(client.post("/f/say/", json=5))
            with living.box.popen("logs", "say", "--follow", stdout=subprocess.PIPE) as following:
                assert "called" in await asyncio.to_thread(following.stdout.readline)
                await asyncio.to_thread(living.run, "delete", "say", "--yes")
                assert call.done()
                assert await asyncio.to_thread(following.wait, 30) == 0
            return await call, await client.post("/f/say/", json=0)

    answer, after = asyncio.run(story())
    assert answer.json() == "one noted"
    assert after.status_code == 404
    assert list((living.home / "platform" / "code").iterdir()) == []
    living.kill()
    living.up()
    assert living.box.listed("list") == []


@pytest.mark.slow
def test_a_deployment_whose_command_is_stopped_changes_nothing(living):
    living.write("two", APP.replace("import asyncio, sys", "import asyncio, time; time.sleep(60)"))
    command = ["deploy", "--local", str(living.file)]
    with living.box.popen(*command) as deploying:
        assert deploying.stderr is not None
        assert "importing" in deploying.stderr.readline()
        deploying.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            deploying.wait(20)
    assert living.said() == "one noted"
    assert len(living.described()["all_revisions"]) == 1


@pytest.mark.slow
def test_one_function_that_cannot_be_set_up_keeps_no_other_from_being_served(tmp_path):
    (tmp_path / "app.py").write_text(
        textwrap.dedent("""
            from faas import inference_function

            @inference_function
            class Bad:
                def setup(self) -> None:
                    raise RuntimeError("no model")
                def predict(self, x: int) -> int:
                    return x

            @inference_function
            async def good(x: int) -> int:
                return x
        """)
    )
    box = bring_up(tmp_path / "h", str(tmp_path / "app.py"))
    try:
        assert box.call("good", 1).json() == 1
        answer = box.call("bad", 1)
        assert answer.status_code == 503
        assert "no model" in answer.json()["detail"]
        listed = {row["name"]: row["failure"] for row in box.listed("list")}
        assert listed["good"] is None
        assert "RuntimeError: no model" in listed["bad"]
        assert "app.py:7" in listed["bad"]
        assert "bad is not served as it is now" in (box.home / "up.log").read_text()
    finally:
        take_down(box)
