"""`faas ps` and `faas list`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from tests.cli.conftest import Faas
from tests.cli.platform import always, coming_up, controlled, record, recorded, refusal
from tests.served import Seen

INSTANCE: dict[str, Any] = {
    "id": "embed-1",
    "function": "embed",
    "revision": "r",
    "state": "ready",
    "pid": 42,
    "how": "parked",
    "age_s": 3.25,
    "start_ms": {"fork": 2.0, "thaw": 9.0},
}
FUNCTION: dict[str, Any] = {
    "name": "embed",
    "url": "http://127.0.0.1:8000/f/embed/",
    "revision": "r2",
    "traffic": {"r2": 100},
    "ready": 1,
    "instances": 2,
    "requests": 7,
    "failed": 0,
    "starts": 3,
    "failure": None,
    "snapshot": "/somewhere",
    "last_start_ms": {"total": 31.0},
}


def test_ps_shows_the_instances(faas: Faas, home: Path) -> None:
    starting = INSTANCE | {"id": "embed-2", "state": "starting", "pid": None, "how": "", "start_ms": {}}
    with controlled(home, always([INSTANCE, starting])) as platform:
        outcome = faas("ps")
    assert [s.path for s in platform.seen] == ["/instances"]
    assert outcome.out.splitlines() == [
        "INSTANCE  FUNCTION  REVISION  STATE     PID  AGE    STARTED BY  START",
        "embed-1   embed     r         ready     42   3.2 s  parked      11 ms",
        "embed-2   embed     r         starting  -    3.2 s  -           -",
    ]


def test_ps_says_when_there_are_none(faas: Faas, home: Path) -> None:
    with controlled(home, always([])):
        assert faas("ps").out == "no instances: every function is at zero\n"
        assert json.loads(faas("ps", "--json").out) == []


def test_list_shows_the_functions(faas: Faas, home: Path) -> None:
    other = FUNCTION | {"name": "b", "snapshot": None, "last_start_ms": None, "failure": "no weights"}
    with controlled(home, always([FUNCTION, other])) as platform:
        outcome = faas("list")
        assert json.loads(faas("list", "--json").out) == [FUNCTION, other]
    assert platform.seen[0].path == "/functions"
    assert outcome.out.splitlines() == [
        "FUNCTION  URL                             REVISION  READY  REQUESTS  FAILED  STARTS  LAST START  BEGINS BY  "
        "FAILURE",
        "embed     http://127.0.0.1:8000/f/embed/  r2        1/2    7         0       3       31 ms       snapshot   -",
        "b         http://127.0.0.1:8000/f/embed/  r2        1/2    7         0       3       -           setup()    "
        "no weights",
    ]


def test_list_shows_how_calls_are_shared(faas: Faas, home: Path) -> None:
    with controlled(home, always([FUNCTION | {"traffic": {"r1": 90, "r2": 10}}])):
        assert "  r1 90%, r2 10%  " in faas("list").out


def test_without_a_platform_the_error_says_how_to_start_one(faas: Faas) -> None:
    for name in ("ps", "list"):
        outcome = faas(name)
        assert outcome.code == 1
        assert outcome.err.startswith("error: no platform runs here")
        assert outcome.err.endswith("next:  faas up TARGET starts the platform\n")


@pytest.mark.parametrize("args", [("ps",), ("list",), ("scale", "embed", "1"), ("logs", "embed", "-f")])
def test_a_platform_that_is_coming_up_is_told_from_none(faas: Faas, home: Path, args: tuple[str, ...]) -> None:
    with coming_up(home, os.getpid()):
        outcome = faas(*args)
    assert outcome.code == 1
    assert outcome.err == (
        f"error: the platform (process {os.getpid()}) is coming up\nnext:  wait for it, or faas down ends it\n"
    )


def test_a_platform_that_has_ended_without_a_word_is_none(faas: Faas, home: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    record(home, pid=ended.pid)
    assert "no platform runs here" in faas("ps").err


def test_a_platform_that_does_not_answer_is_named(faas: Faas, home: Path, folder: Path) -> None:
    with recorded(home, control=str(folder / "absent")):
        outcome = faas("ps")
    assert outcome.code == 1
    assert "does not answer" in outcome.err


def test_a_refusal_is_told_in_its_own_words(faas: Faas, home: Path) -> None:
    async def answer(_: Seen) -> Response:
        return refusal(409, "it is going down")

    with controlled(home, answer):
        outcome = faas("ps")
    assert outcome.code == 1
    assert outcome.err.startswith("error: it is going down\n")


def test_an_answer_that_is_no_problem_is_told_as_it_is(faas: Faas, home: Path) -> None:
    async def answer(_: Seen) -> Response:
        return Response("broken", 500)

    with controlled(home, answer):
        assert faas("ps").err.startswith("error: broken\n")
