import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from benchmarks import area, report
from benchmarks.area import Bench
from benchmarks.rows import Row, at_most


async def well(bench: Bench) -> list[Row]:
    return [Row("latency", bench.choose(2.0, 1.0), "ms", at_most(5))]


async def badly(bench: Bench) -> list[Row]:
    return [Row("memory", 9.0, "MiB", at_most(5))]


async def not_at_all(bench: Bench) -> list[Row]:
    raise ConnectionError("nobody there")


MEASURES = {"well": well, "badly": badly}


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_check_decides_the_exit_status(capsys: pytest.CaptureFixture[str]):
    assert area.main("trial", MEASURES, []) == 0
    assert last_line(capsys) == "falls short: memory (9 MiB, bar <= 5)"
    assert area.main("trial", MEASURES, ["--check"]) == 1
    assert area.main("trial", MEASURES, ["--check", "--only", "well"]) == 0
    assert last_line(capsys) == "all 1 bars hold"


def test_a_measure_that_fails_takes_nothing_from_the_others(capsys: pytest.CaptureFixture[str]):
    assert area.main("trial", {"none": not_at_all, "well": well}, ["--check"]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "falls short: none (not measured)"
    assert "latency" in captured.out
    assert "ConnectionError: nobody there" in captured.err


def test_the_document_has_rows_machine_versions_and_date(tmp_path: Path):
    path = tmp_path / "rows.json"
    area.main("trial", MEASURES, ["--json", str(path), "--quick"])
    document = json.loads(path.read_text())
    assert document["rows"][0] == {"metric": "latency", "value": 1.0, "unit": "ms", "bar": "<= 5", "holds": True}
    assert (document["area"], document["quick"]) == ("trial", True)
    assert document["machine"].keys() >= {"cpu", "cores", "memory_mib", "kernel"}
    assert document["versions"].keys() >= {"python", "faas", "uvicorn"}
    assert document["date"].endswith("+00:00")


def test_a_name_that_is_no_measure_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        area.main("trial", MEASURES, ["--only", "wel"])
    assert ended.value.code == 2
    assert "'well', 'badly'" in capsys.readouterr().err


def test_measures_share_a_home_that_is_gone_afterwards():
    homes: list[Path] = []

    async def look(bench: Bench) -> list[Row]:
        (bench.home / f"{len(homes)}").touch()
        homes.append(bench.home)
        return []

    area.main("trial", {"first": look, "second": look}, [])
    assert homes[0] == homes[1]
    assert not homes[0].exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_the_clean_up_is_not_cut_by_a_second_one(number: signal.Signals):
    steps: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)  # long enough for the loop to hear of the second signal
            steps.append("cleaned up")

    with pytest.raises(SystemExit) as ended:
        area.run_to_the_end(work())
    assert ended.value.code == 128 + number
    assert steps == ["cleaned up"]


def test_a_machine_that_gives_its_cores_back_at_once_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    governor, poll = tmp_path / "governor", tmp_path / "poll"
    monkeypatch.setattr(report, "_GOVERNOR", governor)
    monkeypatch.setattr(report, "_HALT_POLL", poll)

    def warned(of_governor: str, of_poll: str) -> bool:
        governor.write_text(of_governor)
        poll.write_text(of_poll)
        area.main("trial", MEASURES, ["--only", "well"])
        return f"echo 200000 > {poll}" in capsys.readouterr().err

    assert warned("haltpoll\n", "0\n")
    assert not warned("haltpoll\n", "200000\n")
    assert not warned("menu\n", "0\n")
    poll.unlink()
    assert report.guest_halt_poll_ns() is None
