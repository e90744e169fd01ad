from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.responses import Response, StreamingResponse

from faas.platform.logs import LogFile
from tests.cli.conftest import Faas
from tests.cli.platform import controlled, refusal
from tests.cli.process import running
from tests.served import Seen

LINES = [
    {"time": "2026-01-01T00:00:00.000+00:00", "instance": "embed-1", "text": "one\u2028line"},
    {"time": "2026-01-01T00:00:01.000+00:00", "instance": "embed-2", "text": "two"},
]


async def told(_: Seen) -> Response:
    encoded = [json.dumps(line, ensure_ascii=False) + "\n" for line in LINES]
    text = "".join(encoded)

    async def body() -> AsyncIterator[str]:
        yield text[:40]
        yield text[40:]

    return StreamingResponse(body(), media_type="application/x-ndjson")


def test_logs_shows_what_the_platform_tells(faas: Faas, home: Path) -> None:
    with controlled(home, told) as platform:
        outcome = faas("logs", "Embed", "-n", "7")
        assert [json.loads(line) for line in faas("logs", "embed", "--json").out.strip().split("\n")] == LINES
    assert (platform.seen[0].path, platform.seen[0].query) == ("/functions/embed/logs", "follow=0&lines=7")
    assert outcome.out.split("\n") == [
        "2026-01-01T00:00:00.000+00:00 embed-1 one\u2028line",
        "2026-01-01T00:00:01.000+00:00 embed-2 two",
        "",
    ]


def test_a_function_that_has_logged_nothing_is_told_of(faas: Faas, home: Path) -> None:
    async def nothing(_: Seen) -> Response:
        return Response(b"", media_type="application/x-ndjson")

    with controlled(home, nothing):
        outcome = faas("logs", "embed")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "embed has logged nothing\n")


def test_an_unknown_function_is_a_wrong_call(faas: Faas, home: Path) -> None:
    async def answer(_: Seen) -> Response:
        return refusal(404, "no function 'x' here")

    with controlled(home, answer):
        outcome = faas("logs", "x")
    assert outcome.code == 2
    assert outcome.err.startswith("error: no function 'x' here\n")


def test_what_a_running_platform_served_once_is_shown_still(faas: Faas, home: Path) -> None:
    async def answer(_: Seen) -> Response:
        return refusal(404, "no function 'x' here")

    LogFile(home / "logs", "x").write("x-1", "past")
    with controlled(home, answer):
        outcome = faas("logs", "x")
    assert outcome.out.endswith(" x-1 past\n")


def test_what_is_past_is_shown_without_a_platform(faas: Faas, home: Path) -> None:
    log = LogFile(home / "logs", "embed")
    for text in ("one", "two", "three"):
        log.write("embed-1", text)
    outcome = faas("logs", "embed", "-n", "2")
    assert [line.split()[1:] for line in outcome.out.splitlines()] == [["embed-1", "two"], ["embed-1", "three"]]


def test_a_log_that_is_not_there_names_the_nearest(faas: Faas, home: Path) -> None:
    outcome = faas("logs", "embed")
    assert outcome.code == 2
    assert outcome.err.startswith("error: there is no log of 'embed'\n")
    log = LogFile(home / "logs", "embed")
    log.write("embed-1", "one")
    assert "(did you mean 'embed'?)" in faas("logs", "embd").err
    assert "; there are logs of: embed" in faas("logs", "zzz").err


def test_following_needs_a_platform(faas: Faas) -> None:
    outcome = faas("logs", "embed", "-f")
    assert outcome.code == 1
    assert "no platform runs here" in outcome.err


def test_following_goes_on_until_it_is_interrupted(home: Path) -> None:
    async def endless(seen: Seen) -> Response:
        async def body() -> AsyncIterator[str]:
            yield json.dumps(LINES[1]) + "\n"
            await asyncio.Event().wait()

        assert seen.query == "follow=1&lines=100"
        return StreamingResponse(body(), media_type="application/x-ndjson")

    with controlled(home, endless), running("logs", "embed", "-f", merged=True) as following:
        following.wait_for("embed-2 two")
        assert following.end(signal.SIGINT) == 0
        assert following.lines == ["2026-01-01T00:00:01.000+00:00 embed-2 two\n"]


def test_following_ends_with_the_function(faas: Faas, home: Path) -> None:
    with controlled(home, told):
        outcome = faas("logs", "embed", "-f")
    assert (outcome.code, len(outcome.out.split("\n"))) == (0, 3)
    assert outcome.err == "embed is served no more\n"


@pytest.mark.parametrize("args", [("embed", "-n", "-1"), ()])
def test_a_wrong_option_is_a_wrong_call(faas: Faas, args: tuple[str, ...]) -> None:
    assert faas("logs", *args).code == 2
