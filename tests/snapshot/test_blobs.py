import contextlib
import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from snapshot.blobs import Blobs
from snapshot.errors import NoSpaceError

DIGEST = "ab" * 32
CONTENT = b"content" * 1000


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "store")


@pytest.fixture
def target(tmp_path: Path) -> Callable[[str], Path]:
    def path(name: str) -> Path:
        return tmp_path / "store" / "held" / name

    return path


def write(blobs: Blobs, target: Path, content: bytes = CONTENT) -> bool:
    with blobs.writing(DIGEST, len(content), target) as partial:
        if partial is None:
            return False
        with open(partial, "r+b") as file:
            file.write(content)
    return True


def test_what_was_written_is_a_blob_and_its_holders_file(blobs: Blobs, target: Callable[[str], Path]) -> None:
    assert blobs.find(DIGEST) is None
    assert write(blobs, target("a/b"))
    found = blobs.find(DIGEST)
    assert found is not None
    assert found.read_bytes() == CONTENT
    assert found.samefile(target("a/b"))
    assert found.stat().st_mode & 0o777 == 0o444
    assert list(blobs.partials()) == []
    assert not write(blobs, target("c")), "it is there"
    assert target("c").samefile(found)


def test_a_partial_has_its_size_and_its_space_from_the_beginning(blobs: Blobs, target: Callable[[str], Path]) -> None:
    with blobs.writing(DIGEST, 1 << 20, target("a")) as partial:
        assert partial is not None
        assert partial.stat().st_size == 1 << 20
        assert partial.stat().st_blocks * 512 >= 1 << 20
        assert not target("a").exists()
        assert blobs.find(DIGEST) is None


def test_a_blob_of_no_bytes_can_be_written(blobs: Blobs, target: Callable[[str], Path]) -> None:
    assert write(blobs, target("a"), b"")
    assert target("a").read_bytes() == b""


def test_what_a_failed_writer_left_is_there_for_the_next(blobs: Blobs, target: Callable[[str], Path]) -> None:
    with contextlib.suppress(ConnectionError), blobs.writing(DIGEST, len(CONTENT), target("a")) as partial:
        assert partial is not None
        with open(partial, "r+b") as file:
            file.write(CONTENT[:100])
        raise ConnectionError
    assert blobs.find(DIGEST) is None
    assert not target("a").exists()
    with blobs.writing(DIGEST, len(CONTENT), target("a")) as partial:
        assert partial is not None
        assert partial.read_bytes()[:100] == CONTENT[:100]


def test_a_writer_that_died_on_the_last_step_left_a_file_that_can_be_written(
    blobs: Blobs, target: Callable[[str], Path]
) -> None:
    blobs.partial.mkdir(parents=True)
    (blobs.partial / DIGEST).write_bytes(CONTENT)
    (blobs.partial / DIGEST).chmod(0o444)
    with blobs.writing(DIGEST, len(CONTENT), target("a")) as partial:
        assert partial is not None
        assert partial.stat().st_mode & 0o777 == 0o644


def test_one_writes_and_all_others_get_what_it_wrote(blobs: Blobs, target: Callable[[str], Path]) -> None:
    begun, go_on = threading.Event(), threading.Event()
    wrote: list[str] = []

    def work(name: str) -> None:
        with blobs.writing(DIGEST, len(CONTENT), target(name)) as partial:
            if partial is None:
                return
            begun.set()
            assert go_on.wait(60)
            partial.write_bytes(CONTENT)
            wrote.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert [blobs.is_being_written(partial) for partial in blobs.partials()] == [True]
    assert not blobs.discard(blobs.partial / DIGEST)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(wrote) == 1
    assert {target(name).stat().st_ino for name in "abcd"} == {target("a").stat().st_ino}


def test_when_a_writer_is_killed_the_next_in_line_goes_on(blobs: Blobs, target: Callable[[str], Path]) -> None:
    context = multiprocessing.get_context("fork")
    begun = context.Event()

    def hang() -> None:
        with blobs.writing(DIGEST, len(CONTENT), target("a")) as partial:
            assert partial is not None
            with open(partial, "r+b") as file:
                file.write(CONTENT[:100])
            begun.set()
            signal.pause()

    child = context.Process(target=hang)
    child.start()
    assert begun.wait(60)
    found: list[bytes] = []

    def go_on() -> None:
        with blobs.writing(DIGEST, len(CONTENT), target("b")) as partial:
            assert partial is not None
            found.append(partial.read_bytes()[:100])
            partial.write_bytes(CONTENT)

    waiting = threading.Thread(target=go_on)
    waiting.start()
    child.kill()
    child.join(60)
    waiting.join(60)
    assert found == [CONTENT[:100]]
    assert target("b").read_bytes() == CONTENT
    assert not target("a").exists()


def test_a_partial_that_was_collected_while_one_waited_is_begun_again(
    blobs: Blobs, target: Callable[[str], Path]
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with contextlib.suppress(KeyError), blobs.writing(DIGEST, 10, target("a")):
            inside.set()
            assert leave.wait(60)
            (blobs.partial / DIGEST).unlink()
            raise KeyError

    holding = threading.Thread(target=first)
    holding.start()
    assert inside.wait(60)
    waiting = threading.Thread(target=write, args=(blobs, target("b")))
    waiting.start()
    leave.set()
    for thread in (holding, waiting):
        thread.join(60)
    assert target("b").read_bytes() == CONTENT


def test_a_full_disk_is_told_before_anything_is_written(
    blobs: Blobs, target: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSpaceError, match=f"no room for a file of {len(CONTENT)} bytes"):
        write(blobs, target("a"))
    assert list(blobs.partials()) == []
    assert blobs.find(DIGEST) is None


def test_a_blob_is_unheld_when_its_last_holder_is_gone(blobs: Blobs, target: Callable[[str], Path]) -> None:
    write(blobs, target("a"))
    assert blobs.hold(DIGEST, len(CONTENT), target("b"))
    target("a").unlink()
    assert list(blobs.unheld()) == []
    target("b").unlink()
    assert list(blobs.unheld()) == [blobs.folder / DIGEST]


def test_other_files_beside_the_blobs_are_not_taken_for_blobs(blobs: Blobs) -> None:
    blobs.folder.mkdir(parents=True)
    (blobs.folder / "latest").touch()
    (blobs.folder / DIGEST[:16]).mkdir()
    assert list(blobs.unheld()) == []


def test_what_is_adopted_is_linked_and_read_only(blobs: Blobs, target: Callable[[str], Path], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(CONTENT)
        assert blobs.adopt(DIGEST, tmp_path / name, target(name))
    found = blobs.find(DIGEST)
    assert found is not None
    assert found.samefile(tmp_path / "a")
    assert target("b").samefile(found), "the one that was there first is shared"
    assert not target("b").samefile(tmp_path / "b")
    assert found.stat().st_mode & 0o777 == 0o444


def test_s3_05_four_processes_write_one_file_and_one_is_killed_half_way(
    blobs: Blobs, target: Callable[[str], Path]
) -> None:
    context = multiprocessing.get_context("fork")
    content = os.urandom(5 << 20)
    half = len(content) // 2
    # Pipes, not multiprocessing's own: those have locks, which a killed process would keep.
    told, tell = os.pipe()
    gate, open_gate = os.pipe()

    def write_slowly(name: str) -> None:
        os.close(open_gate)
        with blobs.writing(DIGEST, len(content), target(name)) as partial:
            if partial is None:
                return
            with open(partial, "r+b") as file:
                is_resumed = file.read(half) == content[:half]
                file.seek(0)
                file.write(content[:half])
                file.flush()
                os.write(tell, f"{name} {'resumed' if is_resumed else 'began'}\n".encode())
                os.read(gate, 1)  # until all who could open it are gone
                file.write(content[half:])

    children = {name: context.Process(target=write_slowly, args=(name,), daemon=True) for name in "abcde"}
    for name in "abcd":
        children[name].start()
    with open(told) as reports:
        first, how = reports.readline().split()
        assert how == "began"
        assert blobs.find(DIGEST) is None
        assert not any(target(name).exists() for name in "abcd"), "no reader sees a part"
        children[first].kill()
        children["e"].start()
        os.close(open_gate)
        os.close(tell)
        for child in children.values():
            child.join(60)
        assert reports.read().split()[1::2] == ["resumed"], "one went on, and the others got what it wrote"
    os.close(gate)
    assert {name: child.exitcode for name, child in children.items()} == dict.fromkeys("abcde", 0) | {first: -9}
    for name in set(children) - {first}:
        assert target(name).read_bytes() == content
    assert not target(first).exists()
    assert list(blobs.partials()) == []


def test_a_blob_that_appears_before_its_file_is_locked_is_not_written_again(
    blobs: Blobs, target: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Blobs(blobs.folder.parent)
    looks = iter([False])

    def look(digest: str, num_bytes: int, place: Path) -> bool:
        for found in looks:  # what the first look finds missing is there before anything can begin
            write(blobs, target("first"))
            return found
        return blobs.hold(digest, num_bytes, place)

    monkeypatch.setattr(late, "hold", look)
    with late.writing(DIGEST, len(CONTENT), target("second")) as partial:
        assert partial is None
    assert target("second").samefile(target("first"))
    assert list(blobs.partials()) == []
