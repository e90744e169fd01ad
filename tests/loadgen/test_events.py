"""Streams: when their content comes, how many tokens it is, and whether it failed."""

import asyncio
import json
import random
from typing import Any

import pytest
from aiohttp import web

from loadgen import ClosedLoop, Outcome, Report, Workload, run
from loadgen.events import EventReader
from tests.loadgen.stub import serving


def chunk(content: str | None = None, **more: Any) -> bytes:
    """Return an event as an OpenAI-like server sends it."""
    delta: dict[str, Any] = {"role": "assistant"} if content is None else {"content": content}
    return event(json.dumps({"choices": [{"index": 0, "delta": delta}], **more}))


def event(data: str, end: str = "\n") -> bytes:
    return f"data: {data}{end}{end}".encode()


def read(*pieces: tuple[float, bytes]) -> EventReader:
    reader = EventReader()
    for at, piece in pieces:
        reader.feed(piece, at)
    return reader


USAGE = event(json.dumps({"choices": [], "usage": {"completion_tokens": 10}}))
DONE = event("[DONE]")
TEN_TOKENS = [
    (0.0, chunk()),
    (0.05, b": ping\n\n"),
    (0.1, chunk("to be or not ")),
    (0.2, chunk("to be? That, ")),
    (0.3, chunk("is the")),
    (0.31, USAGE + DONE),
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lg_03_tokens_are_counted_by_the_server_and_timed_from_the_first_content(end: str) -> None:
    draw = random.Random(1)
    for _ in range(200):
        reader = EventReader()
        for at, sent in TEN_TOKENS:
            left = sent.replace(b"\n", end.encode())
            while left:
                num = draw.randint(1, len(left))
                reader.feed(left[:num], at)
                left = left[num:]
        timing = reader.timing()
        assert (timing.first_at, timing.num_chunks, timing.num_tokens) == (0.1, 3, 10)
        assert timing.per_token_s == pytest.approx(0.2 / 6)
        assert reader.outcome is Outcome.OK


def test_a_server_that_counts_as_it_goes_says_how_many_came_first() -> None:
    said = ((1, 0.1, "a"), (5, 0.2, "b"), (9, 0.5, "c"))
    timing = read(*((at, chunk(text, usage={"completion_tokens": num})) for num, at, text in said)).timing()
    assert (timing.num_tokens, timing.per_token_s) == (9, pytest.approx(0.4 / 8))


@pytest.mark.parametrize(
    ("pieces", "per_token_s"),
    [
        (((0.1, chunk("all at once")), (0.2, USAGE)), None),
        (((0.1, chunk("a")), (0.2, chunk("b"))), None),  # nobody has counted
        (((0.1, chunk("a")), (0.2, event(json.dumps({"usage": {"completion_tokens": 1}})))), None),
        (((0.1, chunk("a")), (0.2, chunk("bcdefghijk")), (0.3, USAGE)), pytest.approx(0.1 / 9)),
    ],
)
def test_what_cannot_be_told_of_tokens_is_not(pieces: Any, per_token_s: float | None) -> None:
    timing = read(*pieces).timing()
    assert timing.first_at == 0.1
    assert timing.per_token_s == per_token_s


@pytest.mark.parametrize(
    "sent",
    [
        event('"to"'),
        event("plain text"),
        event('{"label": "good"}'),
        b'event: answer\nid: 7\ndata: {"a":\ndata: 1}\n\n',
        b"data\n\n",
        b"data:x\n\n",
        chunk("") + event(json.dumps({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]})),
        event(json.dumps({"choices": [{"text": "completions have it here"}]})),
        event(json.dumps({"choices": [{"delta": {"reasoning_content": "hm"}}]})),
    ],
)
def test_content_is_the_data_of_any_server_or_what_a_choice_brings(sent: bytes) -> None:
    timing = read((0.5, sent)).timing()
    assert (timing.first_at, timing.num_chunks) == (0.5, 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b":\n\n: ping\n\n",
        b"event: ping\ndata: {}\n\n",
        b"event: answer\n\n",
        b"data: not complete\n",
        chunk() + chunk("") + USAGE + DONE,
        event(json.dumps({"choices": [None, {"delta": None}], "usage": None})),
    ],
)
def test_what_is_no_content(sent: bytes) -> None:
    timing = read((0.5, sent)).timing()
    assert (timing.first_at, timing.num_chunks, timing.per_token_s) == (None, 0, None)


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (b'event: error\ndata: {"status":422,"title":"no"}\n\n', Outcome.CLIENT_ERROR),
        (b'event: error\ndata: {"status":503}\n\n', Outcome.OVERLOADED),
        (b"event: error\ndata: it broke\n\n", Outcome.SERVER_ERROR),
        (event('{"error": {"message": "out of memory", "code": 500}}'), Outcome.SERVER_ERROR),
        (event('{"error": "out of memory"}'), Outcome.SERVER_ERROR),
        (event('{"error": {"code": "context_length_exceeded"}}'), Outcome.SERVER_ERROR),
    ],
)
def test_an_error_in_a_stream_is_no_success(sent: bytes, outcome: Outcome) -> None:
    reader = read((0.1, chunk("a")), (0.2, sent))
    assert reader.outcome is outcome
    assert (reader.error or "").startswith("in the stream: ")


def test_an_answer_that_has_no_error_in_it_is_content() -> None:
    assert read((0.1, event('{"error": null, "value": 1}'))).outcome is Outcome.OK


def measured(*pieces: bytes, num_requests: int = 2) -> Report:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.05)
        return response

    async def measure() -> Report:
        async with serving(stream) as url:
            return await run(ClosedLoop(num_callers=1), Workload(url=url), num_requests=num_requests)

    return asyncio.run(measure())


def test_a_run_reports_when_streams_began_and_what_a_token_took() -> None:
    report = measured(chunk(), chunk("abcd"), chunk("abcd"), chunk("ab"), USAGE + DONE)
    assert (report.outcomes["ok"], report.num_streams, report.num_tokens, report.warnings) == (2, 2, 20, ())
    assert report.ttft is not None
    assert report.tpot is not None
    assert report.latency is not None
    assert (report.ttft.num, report.tpot.num) == (2, 2)
    assert 49 <= report.ttft.p50_ms <= report.latency.p50_ms - 149
    assert report.tpot.p50_ms >= 16
    assert report.tokens_per_s == pytest.approx(20 / report.elapsed_s)


def test_a_run_tells_failed_and_empty_streams_from_good_ones() -> None:
    report = measured(chunk("a"), b'event: error\ndata: {"status":500}\n\n')
    assert (report.outcomes["server_error"], report.num_streams, report.ttft) == (2, 0, None)
    assert report.errors == {'in the stream: {"status":500}': 2}
    (warning,) = measured(DONE).warnings
    assert warning == "2 of 2 streams ended well and had no content"
