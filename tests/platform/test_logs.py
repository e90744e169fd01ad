import asyncio
import os

import msgspec

from faas.platform import logs
from faas.platform.logs import LogFile, capture


def texts(file, num_lines=100):
    return [line.text for line in file.last(num_lines)]


def test_lines_are_json_and_the_last_ones_are_read_back(tmp_path):
    file = LogFile(tmp_path / "made", "f")
    file.write("f-1", "a", 'b"\n', "ü")
    assert texts(file, 2) == ['b"\n', "ü"]
    assert texts(file, 0) == []
    record = msgspec.json.decode(file.path.read_bytes().splitlines()[0])
    assert record["instance"] == "f-1"
    assert record["time"].endswith("+00:00")


def test_an_unread_log_is_empty(tmp_path):
    assert LogFile(tmp_path, "none").last(5) == []


def test_it_is_rotated_by_size(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 500)
    file = LogFile(tmp_path, "f")
    for i in range(10):
        file.write("f-1", f"line {i} " + "x" * 50)
    assert (tmp_path / "f.1.jsonl").stat().st_size >= 500
    assert not file.path.exists() or file.path.stat().st_size < 500


def test_a_disk_that_cannot_be_written_loses_lines_only(tmp_path):
    (tmp_path / "f.jsonl").mkdir()
    LogFile(tmp_path, "f").write("f-1", "lost")


def test_what_a_process_prints_is_cut_into_lines(tmp_path):
    async def story():
        file = LogFile(tmp_path, "f")
        transport, writer = await capture(file, "f-1")
        for part in (b"one\ntw", b"o\n", b"x" * (logs.MAX_LINE_BYTES + 10), b"\nlast \xff"):
            await asyncio.to_thread(os.write, writer, part)
        os.close(writer)
        while len(file.last(10)) < 5:
            await asyncio.sleep(0.005)
        transport.close()
        return texts(file)

    one, two, long, rest, last = asyncio.run(story())
    assert (one, two, len(long), rest, last) == ("one", "two", logs.MAX_LINE_BYTES, "x" * 10, "last \ufffd")


def test_a_full_disk_loses_lines_and_says_so_once(tmp_path, caplog):
    log = LogFile(tmp_path, "f")
    log.write("i", "before")
    kept = log.path.rename(tmp_path / "kept")
    log.path.symlink_to("/dev/full")
    log.write("i", "lost")
    log.write("i", "lost too")
    log.path.unlink()
    kept.rename(log.path)
    log.write("i", "after")
    assert [line.text for line in log.last(9)] == ["before", "after"]
    assert [record.message for record in caplog.records if "No space left" in record.message] == [
        f"{log.path} cannot be written, and its lines are lost: No space left on device"
    ]
