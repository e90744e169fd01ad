from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from starlette.responses import Response

from tests.cli.conftest import Faas
from tests.cli.process import running
from tests.served import Seen, serving


async def answer(seen: Seen) -> Response:
    return Response(seen.body, 200 if seen.path != "/bad" else 500)


def test_bench_puts_an_open_load_on_a_url_and_reports(faas: Faas) -> None:
    with serving(answer) as served:
        outcome = faas(
            *("bench", f"{served.url}/good", "--data", "[1]", "--rate", "40", "--arrivals", "constant"),
            *("--duration", "500ms", "--slo", "5s", "--json"),
        )
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert (report["mode"], report["num_offered"], report["slo_ms"]) == ("open", 20, 5000)
    assert report["outcomes"]["ok"] == 20
    assert {(s.method, s.body, s.headers["content-type"]) for s in served.seen} == {
        ("POST", b"[1]", "application/json")
    }


def test_bench_without_a_rate_is_callers_in_a_closed_loop(faas: Faas) -> None:
    with serving(answer) as served:
        outcome = faas("bench", served.url, "--concurrency", "2", "--duration", "0.2")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("closed loop")
    assert "latency, from due" in outcome.out
    assert outcome.err == f"load on {served.url} for 0.2 s\n"
    assert {s.method for s in served.seen} == {"GET"}


def test_the_lines_of_a_file_take_turns(faas: Faas) -> None:
    Path("bodies.jsonl").write_text('"a"\n"b"\n')
    with serving(answer) as served:
        faas(
            "bench", served.url, "-d", "@bodies.jsonl", "--rate", "20", "--arrivals", "constant", "--duration", "200ms"
        )
    assert [s.body for s in served.seen] == [b'"a"', b'"b"', b'"a"', b'"b"']


def test_a_files_bytes_are_sent_as_they_are(faas: Faas) -> None:
    Path("in.bin").write_bytes(b"\x00\xff")
    with serving(answer) as served:
        faas("bench", served.url, "-f", "in.bin", "--duration", "100ms")
    assert served.seen[0].body == b"\x00\xff"
    assert served.seen[0].headers["content-type"] == "application/octet-stream"


def test_headers_are_sent_and_a_stream_is_asked_for_and_timed(faas: Faas) -> None:
    async def words(seen: Seen) -> Response:
        return Response(b'data: "to"\n\ndata: "be"\n\n', media_type="text/event-stream")

    with serving(words) as served:
        outcome = faas(
            *("bench", served.url, "-d", "{}", "--duration", "200ms", "--warmup", "100ms", "--stream", "--json"),
            *("-H", "Authorization: Bearer a:b", "--header", "content-type:application/x+json"),
        )
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert 0 < report["num_streams"] == report["outcomes"]["ok"] == report["ttft"]["num"] < len(served.seen)
    headers = served.seen[0].headers
    assert (headers["authorization"], headers["accept"]) == ("Bearer a:b", "text/event-stream")
    assert headers["content-type"] == "application/x+json"


def test_a_run_in_which_nothing_went_well_has_failed(faas: Faas) -> None:
    with serving(answer) as served:
        outcome = faas("bench", f"{served.url}/bad", "--rate", "20", "--arrivals", "constant", "--duration", "100ms")
    assert outcome.code == 1
    assert outcome.out.startswith("open loop")
    assert "error: no request was answered well: 2 server_error\n" in outcome.err
    outcome = faas("bench", "http://127.0.0.1:1/", "--rate", "20", "--arrivals", "constant", "--duration", "100ms")
    assert outcome.code == 1
    assert "2 connect_error" in outcome.err


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("localhost:1",), "url is 'localhost:1'"),
        (("http://h/", "--rate", "0"), "rate_per_s is 0"),
        (("http://h/", "--duration", "soon"), "'soon' is no duration: write 100ms, 30s or 2m"),
        (("http://h/", "--slo", "0"), "'0' is no duration"),
        (("http://h/", "--arrivals", "regular"), "'regular'"),
        (("http://h/", "--concurrency", "0"), "--concurrency"),
        (("http://h/", "-H", "Accept"), "'Accept' is no header: write 'NAME: VALUE'"),
        (("http://h/", "-d", "@absent.json"), "absent.json cannot be read"),
        (("http://h/", "--rate", "1", "--concurrency", "1", "--processes", "2"), "processes"),
    ],
)
def test_a_load_that_cannot_be_is_a_wrong_call(faas: Faas, args: tuple[str, ...], what: str) -> None:
    outcome = faas("bench", *args)
    assert outcome.code == 2, outcome.err
    assert what in outcome.err


def test_an_interrupted_run_still_reports() -> None:
    with serving(answer) as served, running("bench", served.url, "--duration", "10min", merged=True) as bench:
        bench.wait_for("load on ")
        served.arrived.wait(60)
        assert bench.end(signal.SIGINT) == 0
    assert "stopped early" in "".join(bench.lines)
