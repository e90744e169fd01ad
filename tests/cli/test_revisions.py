"""The commands that change what the platform serves: what they ask, and what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.cli.conftest import HELLO, Faas
from tests.cli.platform import always, controlled, refusal
from tests.served import Seen, serving

REVISION: dict[str, Any] = {
    "revision": "cfc99a6f",
    "number": 2,
    "deployed_at": 0.0,
    "state": "serving",
    "percent": 100,
    "tags": ["next"],
    "target": "/app.py:embed",
    "snapshot": None,
    "reason": 'snapshot="off"',
    "ready": 1,
    "instances": 1,
    "requests": 7,
    "failure": None,
}
FOUND: dict[str, Any] = {
    "name": "embed",
    "url": "http://127.0.0.1:8000/f/embed/",
    "target": "/app.py:embed",
    "revision": "cfc99a6f",
    "revisions": 2,
    "traffic": {"cfc99a6f": 100},
    "tags": {"next": "cfc99a6f"},
    "held": 0,
    "requests": 7,
    "failed": 0,
    "failure": None,
    "reason": 'snapshot="off"',
    "limits": {
        "min_instances": 0,
        "max_instances": 3,
        "max_inputs": 2,
        "target_inputs": 1,
        "timeout_s": 60,
        "startup_timeout_s": 300,
        "scaledown_window_s": 60,
        "cpu": 1.0,
        "memory_bytes": 2**31,
    },
    "all_revisions": [
        REVISION,
        REVISION | {"revision": "142e6f55", "number": 1, "percent": 0, "state": "kept", "tags": []},
    ],
    "all_instances": [],
}


def test_describe_shows_facts_and_revisions(faas: Faas, home: Path) -> None:
    with controlled(home, always(FOUND)) as platform:
        outcome = faas("describe", "Embed")
        assert json.loads(faas("describe", "embed", "--json").out) == FOUND
    assert platform.seen[0].path == "/functions/embed"
    assert "traffic        cfc99a6f 100%\n" in outcome.out
    assert "tags           next -> cfc99a6f\n" in outcome.out
    assert [line.split()[:2] for line in outcome.out.splitlines()[-2:]] == [["cfc99a6f", "2"], ["142e6f55", "1"]]


def test_describe_takes_starts_apart(faas: Faas, home: Path) -> None:
    first = {"id": "embed-1", "revision": "cfc99a6f", "how": "parked", "start_ms": {"fork": 2.0, "thaw": 9.0}}
    second = {"id": "embed-2", "revision": "cfc99a6f", "how": "exec", "start_ms": {"import": 700.0}}
    with controlled(home, always(FOUND | {"all_instances": [first, second]})):
        outcome = faas("describe", "embed", "--cold-starts")
        assert json.loads(faas("describe", "embed", "--cold-starts", "--json").out) == [first, second]
    assert outcome.out.splitlines() == [
        "INSTANCE  REVISION  STARTED BY  START   FORK  THAW  IMPORT",
        "embed-1   cfc99a6f  parked      11 ms   2 ms  9 ms  -",
        "embed-2   cfc99a6f  exec        700 ms  -     -     700 ms",
    ]


def test_describe_says_when_nothing_has_started(faas: Faas, home: Path) -> None:
    with controlled(home, always(FOUND)):
        assert faas("describe", "embed", "--cold-starts").out.startswith("no instances: call it")


def test_traffic_without_changes_only_looks(faas: Faas, home: Path) -> None:
    with controlled(home, always(FOUND)) as platform:
        assert "cfc99a6f" in faas("traffic", "embed").out
    assert [(s.method, s.path) for s in platform.seen] == [("GET", "/functions/embed")]


def test_traffic_sends_shares_and_tags(faas: Faas, home: Path) -> None:
    with controlled(home, always(FOUND)) as platform:
        changes = ("--to", "latest=10", "--to", "1=90%", "--tag", "next=latest", "--untag", "old")
        assert faas("traffic", "embed", *changes).code == 0
    assert (platform.seen[0].method, platform.seen[0].path) == ("POST", "/functions/embed/traffic")
    wanted = {"percents": {"latest": 10, "1": 90}, "tags": {"next": "latest", "old": None}}
    assert json.loads(platform.seen[0].body) == wanted


@pytest.mark.parametrize(
    "args",
    [
        ("--to", "latest"),
        ("--to", "=5"),
        ("--to", "a=x"),
        ("--to", "a=101"),
        ("--to", "a=1", "--to", "a=2"),
        ("--tag", "a="),
    ],
)
def test_shares_and_tags_that_are_none_are_wrong_calls(faas: Faas, args: tuple[str, ...]) -> None:
    outcome = faas("traffic", "embed", *args)
    assert outcome.code == 2
    assert outcome.err.endswith("next:  faas traffic --help\n")


def test_promote_and_rollback(faas: Faas, home: Path) -> None:
    with controlled(home, always(FOUND)) as platform:
        assert faas("promote", "embed").out == "embed: cfc99a6f 100%\n"
        assert faas("promote", "embed", "next").code == 0
        assert faas("rollback", "embed").out == "embed: cfc99a6f 100%\n"
        assert json.loads(faas("rollback", "embed", "--to", "1", "--json").out) == FOUND
    assert [(s.path.rpartition("/")[2], json.loads(s.body)) for s in platform.seen] == [
        ("traffic", {"percents": {"latest": 100}}),
        ("traffic", {"percents": {"next": 100}}),
        ("rollback", {"to": None}),
        ("rollback", {"to": "1"}),
    ]


def test_delete_asks_unless_told(faas: Faas, home: Path) -> None:
    async def answer(seen: Seen) -> Response:
        return JSONResponse({"deleted": "embed"} if seen.method == "DELETE" else FOUND)

    with controlled(home, answer) as platform:
        assert faas("delete", "embed", stdin=b"n\n").code == 1
        assert [s.method for s in platform.seen] == ["GET"]
        assert faas("delete", "embed", stdin=b"y\n").out == "embed is deleted\n"
        assert json.loads(faas("delete", "embed", "--yes", "--json").out) == {"deleted": "embed"}
    assert [s.method for s in platform.seen] == ["GET", "GET", "DELETE", "GET", "DELETE"]


def told(*lines: dict[str, Any]) -> Any:
    async def answer(_: Seen) -> Response:
        return Response(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    return answer


def test_deploy_shows_the_steps_and_what_came_of_them(faas: Faas, home: Path) -> None:
    Path("hello_deploy.py").write_text(HELLO)
    with controlled(home, told({"step": "importing it"}, {"functions": [FOUND], "failures": {}})) as platform:
        outcome = faas("deploy", "--local", "hello_deploy.py", "--no-traffic", "--tag", "next")
    assert outcome.code == 0
    assert outcome.err == "importing it\n"
    assert outcome.out.splitlines()[1].split() == ["embed", "cfc99a6f", "(2)", "100%", "next", FOUND["url"]]
    order = {"target": str(Path("hello_deploy.py").absolute()), "takes_traffic": False, "tag": "next"}
    assert json.loads(platform.seen[0].body) == order


def test_deploy_of_two_functions_of_one_name_says_which_is_served(faas: Faas, home: Path) -> None:
    for name in ("one.py", "two.py"):
        Path(name).write_text(HELLO)

    async def answer(seen: Seen) -> Response:
        found = FOUND | {"target": f"{json.loads(seen.body)['target']}:embed"}
        return Response(json.dumps({"functions": [found], "failures": {}}))

    with controlled(home, answer) as platform:
        assert faas("deploy", "--local", "one.py", "./one.py").code == 0
        assert len(platform.seen) == 1
        outcome = faas("deploy", "--local", "one.py", "two.py")
    assert outcome.code == 2
    assert re.search(r"two functions are called 'embed': .*one\.py:embed and .*two\.py:embed, which is", outcome.err)


def test_deploy_tells_what_failed_and_shows_what_did_not(faas: Faas, home: Path) -> None:
    Path("hello_deploy.py").write_text(HELLO)
    with controlled(home, told({"functions": [FOUND], "failures": {"other": "no model (app.py:7)"}})):
        outcome = faas("deploy", "--local", "hello_deploy.py")
    assert outcome.code == 1
    assert "embed" in outcome.out
    assert "error: other: no model (app.py:7)\n" in outcome.err


@pytest.mark.parametrize(
    ("error", "code", "then"),
    [
        ("NotPrepared", 1, "correct it, then give the same command again"),
        ("TargetError", 2, "name a file (app.py), a function of it (app.py:Embed) or a module (pkg.app)"),
        ("PlatformError", 1, "faas list shows what is served"),
    ],
)
def test_deploy_that_could_not_be_done_says_why(faas: Faas, home: Path, error: str, code: int, then: str) -> None:
    Path("hello_deploy.py").write_text(HELLO)
    with controlled(home, told({"error": error, "detail": "this is why"})):
        outcome = faas("deploy", "--local", "hello_deploy.py")
    assert (outcome.code, outcome.err) == (code, f"error: this is why\nnext:  {then}\n")


def test_deploy_that_hears_no_outcome_has_failed(faas: Faas, home: Path) -> None:
    Path("hello_deploy.py").write_text(HELLO)
    with controlled(home, told({"step": "importing it"})):
        assert "ended before the deployment did" in faas("deploy", "--local", "hello_deploy.py").err


def test_deploy_elsewhere_is_not_there_yet(faas: Faas) -> None:
    assert faas("deploy", "absent.py").code == 2


def test_a_platform_elsewhere_is_asked_with_the_token(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(always(FOUND)) as platform:
        monkeypatch.setenv("FAAS_URL", f"{platform.url}/base/")
        monkeypatch.setenv("FAAS_TOKEN", "0123456789abcdef")
        assert faas("describe", "embed").code == 0
    assert platform.seen[0].path == "/base/_faas/control/functions/embed"
    assert platform.seen[0].headers["authorization"] == "Bearer 0123456789abcdef"
    monkeypatch.setenv("FAAS_URL", "ftp://x")
    assert faas("describe", "embed").code == 2


def test_logs_come_from_the_platform_elsewhere_and_a_local_deployment_does_not_go_there(
    faas: Faas, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("hello_deploy.py").write_text(HELLO)
    line = {"time": "2026-01-01T00:00:00.000+00:00", "instance": "embed-1", "text": "hello"}
    with serving(told(line)) as elsewhere, controlled(home, told({"functions": [FOUND]})) as here:
        monkeypatch.setenv("FAAS_URL", elsewhere.url)
        monkeypatch.setenv("FAAS_TOKEN", "0123456789abcdef")
        assert faas("logs", "embed").out.endswith(" embed-1 hello\n")
        assert faas("deploy", "--local", "hello_deploy.py").code == 0
    assert [s.path for s in elsewhere.seen] == ["/_faas/control/functions/embed/logs"]
    assert [s.path for s in here.seen] == ["/deploy"]


@pytest.mark.parametrize(("status", "code"), [(409, 1), (404, 2)])
def test_what_the_platform_refuses_is_told(faas: Faas, home: Path, status: int, code: int) -> None:
    async def answer(_: Seen) -> Response:
        return refusal(status, "embed has no revision '9'; it has: 5f3a (1)")

    with controlled(home, answer):
        outcome = faas("promote", "embed", "9")
    assert (outcome.code, "it has: 5f3a (1)" in outcome.err) == (code, True)


def test_shares_that_are_not_all_of_the_calls_are_refused(faas: Faas, home: Path) -> None:
    outcome = faas("traffic", "embed", "--to", "1=50", "--to", "2=40")
    assert (outcome.code, "add up to 90 percent" in outcome.err) == (2, True)
