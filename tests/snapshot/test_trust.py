import os
import pickle
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import msgspec
import numpy as np
import pytest

import snapshot
from snapshot.digests import digest_bytes
from snapshot.manifest import MANIFEST_FILE, SKELETON_FILE, FileRecord, Manifest
from snapshot.manifest_reading import read_manifest


class Marker:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def folder(tmp_path: Path, ran: Path) -> Path:
    snapshot.freeze({"marker": Marker(ran), "weights": np.arange(1000.0)}, tmp_path / "s", meta={"note": "x"})
    assert not ran.exists()
    return tmp_path / "s"


def overwrite(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def change_manifest(folder: Path, change: Callable[[Manifest], Manifest]) -> None:
    overwrite(folder / MANIFEST_FILE, change(read_manifest(folder)).encode())


def test_the_marker_works(folder: Path, ran: Path) -> None:
    snapshot.thaw(folder, expect_digest=read_manifest(folder).digest)
    assert ran.exists()


def test_a_changed_skeleton_is_never_unpickled(folder: Path, ran: Path) -> None:
    skeleton = bytearray((folder / SKELETON_FILE).read_bytes())
    skeleton[-2] ^= 1
    overwrite(folder / SKELETON_FILE, bytes(skeleton))
    for check in (snapshot.thaw, snapshot.verify):
        with pytest.raises(snapshot.DigestMismatchError, match="skeleton"):
            check(folder)
    assert not ran.exists()


def test_another_snapshot_than_the_one_asked_for_is_never_unpickled(folder: Path, ran: Path) -> None:
    wanted = read_manifest(folder).digest
    evil = pickle.dumps(Marker(ran))
    overwrite(folder / SKELETON_FILE, evil)

    def consistent(manifest: Manifest) -> Manifest:
        record = FileRecord(SKELETON_FILE, len(evil), *digest_bytes(evil))
        return msgspec.structs.replace(manifest, skeleton=record)

    change_manifest(folder, consistent)
    snapshot.verify(folder)
    with pytest.raises(snapshot.DigestMismatchError, match=wanted):
        snapshot.thaw(folder, expect_digest=wanted)
    assert not ran.exists()


def test_cp_02_another_minor_python_is_refused_before_unpickling_and_both_are_named(folder: Path, ran: Path) -> None:
    change_manifest(folder, lambda m: msgspec.structs.replace(m, python="3.99.1"))
    with pytest.raises(snapshot.PythonMismatchError, match=r"Python 3\.99\.1 .* Python " + sys.version.split()[0]):
        snapshot.thaw(folder)
    assert not ran.exists()


def test_another_patch_of_python_is_fine(folder: Path, ran: Path) -> None:
    other = f"{sys.version_info.major}.{sys.version_info.minor}.999"
    change_manifest(folder, lambda m: msgspec.structs.replace(m, python=other))
    snapshot.thaw(folder)
    assert ran.exists()


def test_another_library_version_is_refused_before_unpickling_and_both_are_named(folder: Path, ran: Path) -> None:
    assert read_manifest(folder).libraries == {"numpy": metadata.version("numpy")}
    change_manifest(folder, lambda m: msgspec.structs.replace(m, libraries={"numpy": "0.1", "not-there": "2"}))
    with pytest.raises(snapshot.LibraryMismatchError) as caught:
        snapshot.thaw(folder)
    assert caught.value.mismatches == {"numpy": ("0.1", metadata.version("numpy")), "not-there": ("2", None)}
    assert f"numpy 0.1 in the snapshot, {metadata.version('numpy')} installed" in str(caught.value)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["tensors-00001.safetensors", SKELETON_FILE])
@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b""], ids=["cut", "longer", "empty"]
)
def test_a_file_of_another_size_is_refused(
    folder: Path, ran: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    overwrite(folder / name, change((folder / name).read_bytes()))
    for check in (snapshot.thaw, snapshot.verify):
        with pytest.raises(snapshot.SizeMismatchError, match=f"{name}: has .* bytes, the manifest says"):
            check(folder)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["tensors-00001.safetensors", SKELETON_FILE])
def test_a_missing_file_is_refused(folder: Path, ran: Path, name: str) -> None:
    (folder / name).unlink()
    for check in (snapshot.thaw, snapshot.verify):
        with pytest.raises(snapshot.SizeMismatchError, match=f"{name}: cannot be opened"):
            check(folder)
    assert not ran.exists()


@pytest.mark.parametrize("name", [MANIFEST_FILE, SKELETON_FILE, "tensors-00001.safetensors"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_not_waited_for(folder: Path, name: str, make: Callable[[Path], None]) -> None:
    (folder / name).unlink()
    make(folder / name)
    for look in (snapshot.thaw, snapshot.verify):
        with pytest.raises(snapshot.DamagedError, match=name):
            look(folder)


def test_a_header_against_the_manifest_is_refused_by_the_tensors_name(folder: Path, ran: Path) -> None:
    shard = folder / "tensors-00001.safetensors"
    overwrite(shard, shard.read_bytes().replace(b'"weights"', b'"weighty"'))
    for check in (snapshot.thaw, snapshot.verify):
        with pytest.raises(snapshot.DamagedError, match=r"tensor 'weights'|digest"):
            check(folder)
    with pytest.raises(snapshot.BadHeaderError, match="tensor 'weights' is None in the file"):
        snapshot.thaw(folder)
    assert not ran.exists()


def test_a_header_that_differs_in_nothing_but_spelling_is_refused_too(folder: Path) -> None:
    shard = folder / "tensors-00001.safetensors"
    overwrite(shard, shard.read_bytes().replace(b"}} ", b"} }", 1))
    with pytest.raises(snapshot.DigestMismatchError, match="another header"):
        snapshot.thaw(folder)


def test_changed_data_is_found_by_verify(folder: Path) -> None:
    shard = folder / "tensors-00001.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    overwrite(shard, bytes(content))
    with pytest.raises(snapshot.DigestMismatchError, match="tensors-00001"):
        snapshot.verify(folder)


def test_a_skeleton_that_cannot_be_rebuilt_says_why(folder: Path) -> None:
    broken = pickle.dumps(Path)[:-1] + b"cno_such_module\nThing\n."
    overwrite(folder / SKELETON_FILE, broken)

    def consistent(manifest: Manifest) -> Manifest:
        record = FileRecord(SKELETON_FILE, len(broken), *digest_bytes(broken))
        return msgspec.structs.replace(manifest, skeleton=record)

    change_manifest(folder, consistent)
    with pytest.raises(snapshot.ThawError, match="No module named 'no_such_module'"):
        snapshot.thaw(folder)
