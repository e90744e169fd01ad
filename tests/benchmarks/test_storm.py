import asyncio
from pathlib import Path

import pytest

from benchmarks.processes import free_port
from benchmarks.served import peer
from benchmarks.storm import Storm, storm

BODY = {"message": "hello"}
RATE_PER_S, LASTS_S = 200.0, 0.5


def stormed(url: str, gives_up_s: float = 20.0) -> Storm:
    return asyncio.run(storm(url, BODY, RATE_PER_S, LASTS_S, seed=1, gives_up_s=gives_up_s))


def answered_with(answer: bytes, gives_up_s: float = 20.0) -> Storm:
    """A storm on a server that answers each request, which is one read, with the same bytes."""

    async def scenario() -> Storm:
        serving: set[asyncio.Task[None] | None] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(asyncio.current_task())
            try:
                while await reader.read(65536):
                    writer.write(answer)
                    if not answer.startswith(b"HTTP") or b"close" in answer:
                        break
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            found = await storm(url, BODY, RATE_PER_S, LASTS_S, seed=1, gives_up_s=gives_up_s)
        await asyncio.gather(*(task for task in serving if task is not None))
        return found

    return asyncio.run(scenario())


def test_all_that_is_due_is_sent_and_answered(tmp_path: Path):
    async def scenario() -> Storm:
        async with peer("bare", tmp_path, BODY) as served:
            return await storm(served.url, BODY, RATE_PER_S, LASTS_S, seed=1, gives_up_s=20.0)

    found = asyncio.run(scenario())
    assert 60 < found.num_due < 140
    assert len(found.answered_s) == found.num_due == found.num_within(20.0)
    assert found.num_within(0.0) == 0
    assert found.cpu_s > 0.0


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
    ],
)
def test_answers_in_chunks_and_on_connections_that_close_are_answers(answer: bytes):
    found = answered_with(answer)
    assert len(found.answered_s) == found.num_due > 60


def test_what_is_not_200_is_refused():
    found = answered_with(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
    assert len(found.refused_s) == found.num_due > 60


@pytest.mark.parametrize("answer", [b"no HTTP at all\r\n\r\n", b""])
def test_what_is_cut_off_is_refused(answer: bytes):
    found = answered_with(answer)
    assert len(found.refused_s) == found.num_due > 60


def test_what_is_never_answered_is_given_up():
    found = answered_with(b"HTTP/1.1 200 OK\r\n", gives_up_s=0.05)
    assert len(found.refused_s) == found.num_due > 60
    assert min(found.refused_s) >= 0.04


def test_a_server_that_is_not_there_ends_the_storm():
    with pytest.raises(OSError, match="Connect"):
        stormed(f"http://127.0.0.1:{free_port()}/")
