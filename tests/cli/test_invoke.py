from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.cli.conftest import Faas
from tests.cli.platform import recorded
from tests.cli.process import running
from tests.served import Seen, serving


async def echo(seen: Seen) -> Response:
    return Response(seen.body, media_type="application/json", headers={"x-cold-start": "1"})


async def events(_: Seen) -> Response:
    async def body() -> AsyncIterator[str]:
        yield 'data: {"i":0}\n\ndata: {"i":1}\n\n'

    return StreamingResponse(body(), media_type="text/event-stream")


def test_invoke_calls_the_platform_of_this_machine(faas: Faas, home: Path) -> None:
    with serving(echo) as served, recorded(home, url=served.url):
        outcome = faas("invoke", "MyEmbed", "--data", '"hello"')
    assert (outcome.code, outcome.out, outcome.err) == (0, '"hello"\n', "")
    (seen,) = served.seen
    assert (seen.method, seen.path, seen.headers["content-type"]) == ("POST", "/f/myembed/", "application/json")
    assert seen.headers["accept"] == "application/json"


def test_invoke_calls_the_url_that_the_environment_names(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(echo) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        assert faas("invoke", "embed", "-d", "1").out == "1\n"


def test_another_endpoint_is_called_by_its_path(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(echo) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        faas("invoke", "ocr", "-d", "1", "--path", "/count")
    assert served.seen[0].path == "/f/ocr/count"


def test_headers_are_sent_besides(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(echo) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        faas("invoke", "f", "-d", "1", "-H", "X-Api-Key: a:b", "--header", "content-type:text/plain", "-H", "X-Empty:")
        wrong = faas("invoke", "f", "-d", "1", "-H", "X-Api-Key=a")
        outcome = faas("invoke", "f", "-d", "1", "-H", "X-Name: é")
    (seen,) = served.seen
    assert (seen.headers["x-api-key"], seen.headers["x-empty"]) == ("a:b", "")
    assert seen.headers["content-type"] == "text/plain"
    assert (wrong.code, outcome.code) == (2, 2)
    assert "--header: 'X-Api-Key=a' is no header: write 'NAME: VALUE'\nnext:  faas invoke --help\n" in wrong.err


def test_bytes_are_sent_and_written_as_they_are(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    async def back(seen: Seen) -> Response:
        return Response(seen.body, media_type="application/octet-stream")

    Path("in.bin").write_bytes(b"\x00\xff")
    with serving(back) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        assert faas("invoke", "f", "--file", "in.bin").out_bytes == b"\x00\xff"
    assert served.seen[0].headers["content-type"] == "application/octet-stream"


def test_without_input_the_body_is_empty(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(echo) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        faas("invoke", "f")
    assert served.seen[0].body == b""


def test_headers_go_to_standard_error(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(echo) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        outcome = faas("invoke", "f", "-d", "1", "-i")
    assert outcome.out == "1\n"
    assert outcome.err.startswith("HTTP 200 OK\n")
    assert "x-cold-start: 1\n" in outcome.err


@pytest.mark.parametrize(
    ("words", "then"),
    [(["hello"], """'"hello"'"""), (["two", "words"], """'"two words"'"""), (["5"], "5"), (["[1, 2]"], "'[1, 2]'")],
)
def test_input_without_an_option_is_shown_as_it_is_to_be_given(faas: Faas, words: list[str], then: str) -> None:
    outcome = faas("invoke", "greet", *words)
    assert outcome.code == 2
    assert outcome.err.endswith(f"next:  faas invoke greet -d {then}\n")


def test_a_stream_is_a_line_an_event(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(events) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        assert faas("invoke", "f", "--stream").out == '{"i":0}\n{"i":1}\n'
    assert served.seen[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(
    ("status", "code", "then"),
    [(404, 2, "faas list"), (422, 2, "--data JSON"), (500, 1, "faas logs"), (504, 1, "logs")],
)
def test_an_error_is_told_with_its_reason(
    faas: Faas, monkeypatch: pytest.MonkeyPatch, status: int, code: int, then: str
) -> None:
    async def answer(_: Seen) -> Response:
        return JSONResponse({"detail": "because"}, status)

    with serving(answer) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        outcome = faas("invoke", "f", "-d", "1")
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(f"error: f answered {status}: because\n")
    assert then in outcome.err


def test_nobody_at_the_url_is_an_error_at_once(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAAS_URL", "http://127.0.0.1:1")
    outcome = faas("invoke", "f", "-d", "1")
    assert outcome.code == 1
    assert "nothing answers at http://127.0.0.1:1/f/f/" in outcome.err


def test_a_platform_that_does_not_come_up_is_an_error_that_says_how_to_start_one(faas: Faas) -> None:
    outcome = faas("invoke", "f", "-d", "1", "--wait", "0.05")
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        "waiting up to 0.05 s for a platform to come up here",
        "error: f is served nowhere that can be found: no platform runs here, and FAAS_URL is not set",
        "next:  faas up TARGET starts the platform",
    ]


def test_a_platform_that_comes_up_is_waited_for(home: Path) -> None:
    with serving(echo) as served, running("invoke", "f", "-d", "1", merged=True) as invoking:
        invoking.wait_for("waiting up to 60 s")
        with recorded(home, url=served.url):
            invoking.wait_for("^1$")
            assert invoking.process.wait(60) == 0


def test_an_answer_that_takes_long_is_worth_a_word(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faas.cli.invoke._PATIENCE_S", 0.0)

    async def slow(seen: Seen) -> Response:
        await asyncio.sleep(0.1)
        return await echo(seen)

    with serving(slow) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        outcome = faas("invoke", "f", "-d", "1")
    assert (outcome.out, outcome.err) == ("1\n", "waiting for f to answer\n")


def test_an_answer_that_does_not_come_is_an_error(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: Seen) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    with serving(never) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        outcome = faas("invoke", "f", "-d", "1", "--timeout", "0.2")
    assert outcome.code == 1
    assert outcome.err == "error: f gave no answer within 0.2 s\nnext:  faas logs f\n"


def test_an_interrupt_is_one_word(home: Path) -> None:
    with running("invoke", "f", merged=True) as invoking:
        invoking.wait_for("waiting up to 60 s")
        assert invoking.end(signal.SIGINT) == 1
    assert [line.strip() for line in invoking.lines[1:] if line.strip()] == ["stopped"]
