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


def test_the_last_lines_reach_back_behind_a_rotation(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 500)
    file = LogFile(tmp_path, "f")
    for i in range(8):
        file.write("f-1", f"line {i}")
    assert file.path.stat().st_size < 500, "some are before the rotation, some after"
    assert texts(file, 6) == [f"line {i}" for i in range(2, 8)]


def test_long_lines_are_as_many_as_short_ones(tmp_path):
    file = LogFile(tmp_path, "f")
    long = [f"{i:04}" + "x" * 5_000 for i in range(100)]
    file.write("f-1", *long)
    assert texts(file, 90) == long[10:]


def test_who_follows_gets_the_last_lines_and_each_that_comes_and_the_end(tmp_path):
    async def story():
        file = LogFile(tmp_path, "f")
        file.write("f-1", "a", "b", "c")
        following = file.follow(2)
        got = [(await anext(following)).text]
        file.write("f-1", "d")  # before what is past has been read
        file.close()
        got += [line.text async for line in following]
        assert file.num_followers == 0
        return got

    assert asyncio.run(story()) == ["b", "c", "d"]


def test_who_follows_and_is_too_slow_is_told_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_BEHIND", 3)

    async def story():
        file = LogFile(tmp_path, "f")
        following = file.follow()
        first = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        file.write("f-1", *(str(i) for i in range(10)))
        got = [(await first).text]
        file.write("f-1", "as long as it has not caught up")
        got += [(await anext(following)).text for _ in range(3)]
        file.write("f-1", "after")
        got.append((await anext(following)).text)
        await following.aclose()
        return got

    missing = "faas: 8 lines are left out here: they came faster than they are read"
    assert asyncio.run(story()) == ["0", "1", "2", missing, "after"]


def test_a_disk_that_cannot_be_written_loses_lines_only(tmp_path):
    (tmp_path / "f.jsonl").mkdir()
    LogFile(tmp_path, "f").write("f-1", "lost")
    assert list((tmp_path / "f.jsonl").iterdir()) == []


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


def printed(tmp_path, *parts):
    """Return what is logged of a process that prints `parts` and ends."""

    async def story():
        file = LogFile(tmp_path, "f")
        transport, writer = await capture(file, "f-1")
        for part in parts:
            await asyncio.to_thread(os.write, writer, part)
            await asyncio.sleep(0.01)
        os.close(writer)
        while not transport.is_closing():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        return texts(file, 100_000)

    return asyncio.run(asyncio.wait_for(story(), 60))


def test_of_a_progress_bar_its_last_state_is_a_line(tmp_path):
    bar = [b"\r%d%%" % percent for percent in range(0, 101, 10)]
    assert printed(tmp_path, b"begin\r\n", *bar, b"\nend\r", b"\n\r\r7") == ["begin", "100%", "end", "7"]


def test_much_output_is_all_there_and_leaves_time_for_others(tmp_path):
    lines = [f"{number:099}" for number in range(20_000)]

    async def story():
        file = LogFile(tmp_path, "f")
        transport, writer = await capture(file, "f-1")
        printing = asyncio.ensure_future(asyncio.to_thread(_print, writer, lines))
        await printing
        while not transport.is_closing():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        return texts(file, 100_000)

    assert asyncio.run(asyncio.wait_for(story(), 60)) == lines


def _print(writer, lines):
    with os.fdopen(writer, "w") as output:
        output.writelines(f"{line}\n" for line in lines)


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
