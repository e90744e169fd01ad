import asyncio
from pathlib import Path

import pytest

from benchmarks.processes import ServerError, free_port, running

# A server whose child stays behind when it ends.
LEAVES_A_CHILD = """
import http.server, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which its parent alone could take away."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_server_is_awaited_and_ends_with_all_that_it_started(tmp_path: Path):
    async def scenario() -> list[int]:
        port = free_port()
        async with running("stub", ["-c", LEAVES_A_CHILD, str(port)], tmp_path / "log") as server:
            await server.until_answers(f"http://127.0.0.1:{port}/")
            pids = server.pids
            assert len(pids) == 2
            assert server.cpu_s > 0
        return pids

    assert not any(map(runs, asyncio.run(scenario())))


def test_a_server_that_ends_early_is_told_with_the_last_it_printed(tmp_path: Path):
    async def scenario() -> None:
        async with running("stub", ["-c", "import sys; sys.exit('no port today')"], tmp_path / "log") as server:
            await server.until_answers(f"http://127.0.0.1:{free_port()}/")

    with pytest.raises(ServerError, match="stub ended with status 1: no port today"):
        asyncio.run(scenario())


def test_a_server_that_never_answers_is_given_up(tmp_path: Path):
    async def scenario() -> None:
        async with running("stub", ["-c", "import signal; signal.pause()"], tmp_path / "log") as server:
            await server.until_answers(f"http://127.0.0.1:{free_port()}/", within_s=0.2)

    with pytest.raises(ServerError, match=r"stub does not answer at .* within 0\.2 s: it printed nothing"):
        asyncio.run(scenario())


def test_what_is_running_when_a_measure_fails_is_ended(tmp_path: Path):
    pids: list[int] = []

    async def scenario() -> None:
        async with running("stub", ["-c", "import signal; signal.pause()"], tmp_path / "log") as server:
            pids.extend(server.pids)
            raise RuntimeError("measure failed")

    with pytest.raises(RuntimeError, match="measure failed"):
        asyncio.run(scenario())
    assert len(pids) == 1
    assert not Path(f"/proc/{pids[0]}").exists()


def test_variables_reach_the_server(tmp_path: Path):
    log = tmp_path / "log"

    async def scenario() -> None:
        command = ["-c", "import os; print(os.environ['COLOUR'], os.environ['HF_HUB_OFFLINE'])"]
        async with running("stub", command, log, COLOUR="green") as server:
            await server.process.wait()

    asyncio.run(scenario())
    assert log.read_text() == "green 1\n"
