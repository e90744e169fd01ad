"""Versions in folders and in S3, with real files."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapshot
from faas import Versions, inference_function, pulled
from faas.clock import monotonic
from faas.engine.assembly import Shared
from faas.engine.thread import ModelThread
from faas.engine.versions import ahead, plan, source
from faas.engine.versions.folder import Folder
from faas.engine.versions.keeper import Keeper
from faas.engine.versions.lanes import VersionedCall
from faas.engine.versions.plan import Wishes
from faas.engine.versions.prefix import Prefix
from faas.engine.versions.source import SourceError
from faas.engine.versions.states import State
from faas.engine.versions.supply import Supply, Unholdable
from faas.handler import Handler
from faas.messages import Context
from faas.versions import folder_of
from snapshot import LocalStore
from snapshot.errors import BadAddressError
from snapshot.s3_store import S3Store
from tests.s3_server import rclone

HALF_PLUS_TWO, HALF_PLUS_THREE = 2.0, 3.0


class HalfPlus:
    """y = x / 2 + what its version says."""

    def setup(self) -> None:
        raise AssertionError("a version's state is frozen")

    def predict(self, x: float) -> float:
        return x / 2 + float(self.more[0])


def freeze(folder: Path, more: float, **globals_: object) -> Path:
    state = {"attributes": {"more": np.full(1000, more)}, "globals": {"app": globals_} if globals_ else {}}
    snapshot.freeze(state, folder, meta={"function": "half-plus"})
    return folder


def supply(place: str) -> Supply:
    function = inference_function(name="half-plus", versions=Versions())(HalfPlus)
    return Supply(
        function,
        source.find(place),
        lambda at, background: snapshot.thaw(Path(at), background=background),
        pulled.manifest_at,
    )


@contextlib.asynccontextmanager
async def following(place: Path, **spec: Any) -> AsyncIterator[Keeper]:
    """A keeper of the versions in a folder, which looks when it is asked to."""
    thread = ModelThread()
    versions = Versions(**({"poll_s": 0, "load_retries": 0} | spec))
    function = inference_function(name="half-plus", versions=versions)(HalfPlus)
    keeper = Keeper(versions, supply(str(place)), Shared(function, thread, monotonic))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        await keeper.start()
    try:
        yield keeper
    finally:
        await keeper.close()
        await keeper.engines["/"].close()
        assert await thread.close(20)


async def answers(keeper: Keeper, *xs: float) -> list[float]:
    calls = [VersionedCall({"x": x}, Context("request", deadline=monotonic() + 20)) for x in xs]
    return list(await asyncio.gather(*(keeper.engines["/"].answer(call) for call in calls)))


def test_l1_children_that_are_whole_snapshots_with_a_number_are_versions(tmp_path: Path):
    freeze(tmp_path / "123", 2.0)
    freeze(tmp_path / "00124", 3.0)
    freeze(tmp_path / ".125", 3.0)
    freeze(tmp_path / "126.tmp", 3.0)
    freeze(tmp_path / "elsewhere", 3.0)
    (tmp_path / "127").symlink_to("elsewhere")
    (tmp_path / "128").mkdir()  # its files are yet to come
    (tmp_path / "129").write_text("no folder")
    look = Folder(tmp_path).look()
    assert look.places == {
        123: str(tmp_path / "123"),
        124: str(tmp_path / "00124"),
        127: str(tmp_path / "elsewhere"),
    }
    assert (look.file, look.warnings) == (None, ())


def test_l1_of_two_folders_of_one_version_one_is_served_and_the_log_says_which(
    tmp_path: Path, run, caplog: pytest.LogCaptureFixture
):
    freeze(tmp_path / "1", HALF_PLUS_TWO)
    freeze(tmp_path / "00001", HALF_PLUS_THREE)

    async def story() -> None:
        async with following(tmp_path) as keeper:
            await keeper.follow()
            assert await answers(keeper, 1) == [2.5]

    run(story())
    assert [record.getMessage() for record in caplog.records] == [
        "half-plus: 00001 and 1 are both version 1; 1 is used"
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_l1_one_that_is_being_copied_is_no_version_until_all_of_it_is_there(tmp_path: Path, order: int):
    freeze(tmp_path / "elsewhere" / "2", 3.0)
    freeze(tmp_path / "1", 2.0)
    folder, there = Folder(tmp_path), tmp_path / "2"
    there.mkdir()
    files = sorted((tmp_path / "elsewhere" / "2").iterdir())[::order]
    for path in files:
        content = path.read_bytes()
        for num_bytes in (0, len(content) // 2, len(content) - 1):
            (there / path.name).write_bytes(content[:num_bytes])
            look = folder.look()
            assert list(look.places) == [1]
            if (there / "manifest.json").exists():
                assert str(look.warnings).count("version 2 is not there as a whole yet: ") == 1
        (there / path.name).write_bytes(content)
    look = folder.look()
    assert (sorted(look.places), look.warnings) == ([1, 2], ())
    (there / "skeleton").write_bytes(b"")  # whoever serves it is not told to let it go
    assert sorted(folder.look().places) == [1, 2]
    assert sorted(Folder(tmp_path).look().places) == [1]


def test_a_version_that_is_copied_slowly_is_served_once_it_is_there(tmp_path: Path, run):
    freeze(tmp_path / "elsewhere" / "2", HALF_PLUS_THREE)
    freeze(tmp_path / "1", HALF_PLUS_TWO)

    async def story() -> None:
        made, thread = supply(str(tmp_path)), ModelThread()
        function = inference_function(name="half-plus", versions=Versions(poll_s=0, load_retries=0))(HalfPlus)
        keeper = Keeper(function.spec.versions, made, Shared(function, thread, monotonic))
        await keeper.start()
        (tmp_path / "2").mkdir()
        files = sorted((tmp_path / "elsewhere" / "2").iterdir())
        for path in files:
            await keeper.follow()
            assert await answers(keeper, 1) == [2.5]
            assert [(entry.number, entry.step.state) for entry in keeper.entries] == [(1, State.AVAILABLE)]
            (tmp_path / "2" / path.name).write_bytes(path.read_bytes())
        await keeper.follow()
        assert await answers(keeper, 1) == [3.5]
        await keeper.close()
        await keeper.engines["/"].close()
        assert await thread.close(20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        run(story())


def test_l3_a_base_that_is_missing_is_an_error(tmp_path: Path):
    with pytest.raises(SourceError, match="No such file or directory"):
        Folder(tmp_path / "nothing").look()


def test_l3_a_child_that_cannot_be_looked_at_is_an_error_too(tmp_path: Path):
    base = tmp_path
    while (left := 4090 - len(str(base))) > 1:  # what is in a child of it has too long a path
        base /= "d" * min(200, left - 1)
    (base / "1").mkdir(parents=True)
    with pytest.raises(SourceError, match="cannot be looked at: File name too long"):
        Folder(base).look()


def test_the_file_is_replaced_as_a_whole(tmp_path: Path):
    folder = Folder(tmp_path / "versions")
    folder.write(plan.write(Wishes(labels={"stable": 1})))
    folder.write(plan.write(Wishes(labels={"stable": 2})))
    assert plan.read(folder.look().file).labels == {"stable": 2}
    assert [path.name for path in (tmp_path / "versions").iterdir()] == ["versions.json"]
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="cannot write"):
        Folder(tmp_path / "file" / "versions").write(b"{}")


def test_half_plus_two_and_half_plus_three(tmp_path: Path, run):
    freeze(tmp_path / "123", HALF_PLUS_TWO)

    async def story() -> None:
        made, thread = supply(str(tmp_path)), ModelThread()
        function = inference_function(name="half-plus", versions=Versions(poll_s=0.01))(HalfPlus)
        keeper = Keeper(function.spec.versions, made, Shared(function, thread, monotonic))
        await keeper.start()
        assert await answers(keeper, 1, 2) == [2.5, 3.0]
        freeze(tmp_path / "new.tmp", HALF_PLUS_THREE)
        (tmp_path / "new.tmp").rename(tmp_path / "124")
        async with asyncio.timeout(20):
            while keeper.lanes.default != 124 or len(keeper.lanes.ready) > 1:
                await asyncio.sleep(0.01)
        assert await answers(keeper, 1, 2, 5) == [3.5, 4.0, 5.5]
        await keeper.close()
        await keeper.engines["/"].close()
        assert await thread.close(20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        run(story())


def test_a_damaged_version_leaves_the_old_one_serving(tmp_path: Path, run):
    freeze(tmp_path / "1", HALF_PLUS_TWO)

    async def story() -> None:
        made, thread = supply(str(tmp_path)), ModelThread()
        function = inference_function(name="half-plus", versions=Versions(poll_s=0, load_retries=0))(HalfPlus)
        keeper = Keeper(function.spec.versions, made, Shared(function, thread, monotonic))
        await keeper.start()
        (tmp_path / "2").mkdir()
        (tmp_path / "2" / "manifest.json").write_text("{}")
        await keeper.follow()
        assert keeper.entries[0].step.state is State.END
        assert "manifest.json" in str(keeper.entries[0].reason)
        assert await answers(keeper, 1) == [2.5]
        await keeper.close()
        await keeper.engines["/"].close()
        assert await thread.close(20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        run(story())


def test_a_damaged_version_is_served_once_it_is_mended_where_it_is(tmp_path: Path, run):
    freeze(tmp_path / "1", HALF_PLUS_TWO)
    whole = freeze(tmp_path / "elsewhere" / "2", HALF_PLUS_THREE)

    async def story() -> None:
        made, thread = supply(str(tmp_path)), ModelThread()
        function = inference_function(name="half-plus", versions=Versions(poll_s=0, retry_s=3600))(HalfPlus)
        keeper = Keeper(function.spec.versions, made, Shared(function, thread, monotonic))
        await keeper.start()
        shutil.copytree(whole, tmp_path / "2")
        skeleton = tmp_path / "2" / "skeleton"
        skeleton.write_bytes(bytes(skeleton.stat().st_size))
        for _ in range(2):
            await keeper.follow()
            assert "skeleton" in str(keeper.entries[0].reason)
            assert await answers(keeper, 1) == [2.5]
        shutil.copy(whole / "skeleton", skeleton)
        await keeper.follow()
        assert await answers(keeper, 1) == [3.5]
        await keeper.close()
        await keeper.engines["/"].close()
        assert await thread.close(20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        run(story())


@pytest.mark.parametrize("way", ["in place", "another folder"])
def test_a_version_that_is_overwritten_while_it_is_served_is_told_of(
    tmp_path: Path, run, caplog: pytest.LogCaptureFixture, way: str
):
    served, new = freeze(tmp_path / "1", HALF_PLUS_TWO), freeze(tmp_path / "new", HALF_PLUS_THREE)

    async def story() -> None:
        async with following(tmp_path) as keeper:
            if way == "in place":
                (served / "skeleton").touch()
            else:
                served.rename(tmp_path / "old")
                new.rename(served)
            for _ in range(3):
                await keeper.follow()
            assert await answers(keeper, 1) == [2.5]
            assert [(entry.number, entry.step.state) for entry in keeper.entries] == [(1, State.AVAILABLE)]

    run(story())
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("half-plus: the files of version 1 have changed while it is held: it is not loaded again")


def test_a_state_with_globals_is_no_version(tmp_path: Path):
    freeze(tmp_path / "1", 2.0, tokenizer="words")
    with pytest.raises(Unholdable, match=r"setup\(\) bound globals, .*: app\.tokenizer; keep them as attributes"):
        supply(str(tmp_path)).bring(str(tmp_path / "1"))


def test_what_versions_set_otherwise_in_the_environment_cannot_be_held_together(tmp_path: Path, monkeypatch):
    for number, value in ((1, "a"), (2, "b"), (3, "a")):
        state = {"attributes": {"more": np.zeros(10)}, "globals": {}, "environ": {"FAAS_TEST_MODEL": value}}
        snapshot.freeze(state, tmp_path / str(number), meta={"function": "half-plus"})
    monkeypatch.setenv("FAAS_TEST_MODEL", "")  # noted, so that it is gone after the test
    monkeypatch.delenv("FAAS_TEST_MODEL")
    made = supply(str(tmp_path))
    made.bring(str(tmp_path / "1"))
    with pytest.raises(Unholdable, match=r"otherwise than they are here: FAAS_TEST_MODEL; keep them as attributes"):
        made.bring(str(tmp_path / "2"))
    made.bring(str(tmp_path / "3"))


def test_l12_a_version_is_as_large_as_its_files(tmp_path: Path):
    freeze(tmp_path / "1", 2.0)
    files = [path for path in (tmp_path / "1").iterdir() if path.name != "manifest.json"]
    assert supply(str(tmp_path)).size(str(tmp_path / "1")) == sum(path.stat().st_size for path in files)


def test_a_zygote_brings_in_what_is_to_be_held(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    for number in (1, 2, 3):
        freeze(tmp_path / str(number), float(number))
    Folder(tmp_path).write(plan.write(Wishes(labels={"stable": 1})))
    freeze(tmp_path / "4", 4.0, tokenizer="words")
    made = supply(str(tmp_path))
    function = inference_function(name="half-plus", versions=Versions(num=2))(HalfPlus)
    rehearsed: list[float] = []

    def rehearse(handler: Handler) -> None:
        rehearsed.append(handler.method(function.main)(0.0))

    ahead.bring(made, function, str(tmp_path), rehearse)
    assert sorted(made.ahead) == [1, 3]
    assert rehearsed == [1.0, 3.0]
    assert all(brought.is_warm for brought in made.ahead.values())
    assert "version 4 is left to each instance" in caplog.text
    other = supply(str(tmp_path))
    ahead.bring(other, function, str(tmp_path / "nothing"), None)
    assert other.ahead == {}
    assert "versions are left to each instance" in caplog.text


def test_the_versions_of_a_store_are_a_folder_that_can_be_followed(tmp_path: Path):
    store = LocalStore(tmp_path / "store")
    stored = store.publish("half-plus", freeze(tmp_path / "made", 2.0))
    store.number("half-plus", 7, stored.digest)
    look = Folder(folder_of("half-plus", store.root)).look()
    assert look.places == {7: str(store.folder(stored))}


def test_l3_versions_in_s3_are_looked_at_and_only_what_changed_is_read(tmp_path: Path, monkeypatch):
    with rclone(tmp_path, "bucket") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = S3Store("s3://bucket/models")
        first = store.publish("half-plus", freeze(tmp_path / "first", 2.0))
        second = store.publish("half-plus", freeze(tmp_path / "second", 3.0))
        store.number("half-plus", 1, first.digest)
        found = source.find("s3://bucket/models/half-plus")
        assert isinstance(found, Prefix)
        assert found.look().places == {1: f"s3://bucket/models/half-plus@{first.digest}"}
        read: list[str] = []
        get = found._client.get
        monkeypatch.setattr(found._client, "get", lambda key: read.append(key) or get(key))
        store.number("half-plus", 2, second.digest)
        found.write(plan.write(Wishes(labels={"stable": 1})))
        look = found.look()
        assert look.places[2] == f"s3://bucket/models/half-plus@{second.digest}"
        assert plan.read(look.file).labels == {"stable": 1}
        assert sorted(key.rpartition("/")[2] for key in read) == ["2", "versions.json"]
        store.unnumber("half-plus", 1)
        assert sorted(found.look().places) == [2]
        for content in (b"", b"latest", first.digest[:8].encode()):  # none of which may lead to the latest, or to any
            found._client.put("models/half-plus/versions/3", content)
            with pytest.raises(SourceError, match=r"versions/3 holds .*no snapshot's digest"):
                found.look()
        store.unnumber("half-plus", 3)
        assert supply("s3://bucket/models/half-plus").size(look.places[2]) > 8000
    with pytest.raises(SourceError):
        found.look()
    with pytest.raises(SourceError):
        found.write(b"{}")


def test_an_address_that_is_none_is_refused():
    with pytest.raises(BadAddressError):
        source.find("s3://")
