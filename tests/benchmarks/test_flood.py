import asyncio
from pathlib import Path

import pytest

from benchmarks.flood import flood, is_whole
from benchmarks.load import UnansweredError
from benchmarks.processes import free_port
from benchmarks.served import Served, peer

BODY = {"message": "hello"}


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n1", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\n12", True),
        (b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n", True),
    ],
)
def test_an_answer_is_whole_when_all_of_its_body_has_come(answer, whole):
    assert is_whole(answer) is whole


def test_callers_are_answered_until_their_time_is_up(tmp_path: Path):
    async def scenario() -> None:
        async with peer("bare", tmp_path, BODY) as served:
            found = await flood(served, BODY, 4, 1.0)
        assert found.num_answers > 4
        assert found.elapsed_s >= 1.0

    asyncio.run(scenario())


def test_an_answer_that_is_not_200_ends_the_flood(tmp_path: Path):
    async def scenario() -> None:
        async with peer("bare", tmp_path, BODY) as served:
            await flood(Served(served.server, f"{served.url}nowhere"), BODY, 4, 30.0)

    with pytest.raises(UnansweredError, match=r"HTTP/1\.1 404"):
        asyncio.run(scenario())


def test_a_server_that_is_not_there_ends_the_flood(tmp_path: Path):
    async def scenario() -> None:
        async with peer("bare", tmp_path, BODY) as served:
            await flood(Served(served.server, f"http://127.0.0.1:{free_port()}/"), BODY, 2, 30.0)

    with pytest.raises(ConnectionRefusedError):
        asyncio.run(scenario())
