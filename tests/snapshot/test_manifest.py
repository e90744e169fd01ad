import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import snapshot
from snapshot.manifest import MANIFEST_FILE, Manifest
from snapshot.manifest_reading import parse_manifest, read_manifest

WHERE = Path("manifest.json")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    state = {"a": np.arange(10.0), "b": np.arange(6).reshape(2, 3).T}
    return snapshot.freeze(state, tmp_path_factory.mktemp("m") / "s", meta={"function": "embed", "n": [1, 2.5, None]})


def changed(manifest: Manifest, change: Callable[[dict[str, Any]], None]) -> bytes:
    raw = msgspec.json.decode(manifest.encode())
    change(raw)
    return msgspec.json.encode(raw)


def test_what_is_written_is_what_is_read(manifest: Manifest) -> None:
    back = parse_manifest(WHERE, manifest.encode())
    assert back == manifest
    assert back.digest == manifest.digest
    assert back.meta == {"function": "embed", "n": [1, 2.5, None]}
    assert back.tensor_bytes == 80 + 48
    assert manifest.digest.startswith(manifest.short_digest)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    from blake3 import blake3

    manifest = snapshot.freeze([1, "x"], tmp_path / "s")
    assert blake3((tmp_path / "s" / MANIFEST_FILE).read_bytes()).hexdigest() == manifest.digest
    assert read_manifest(tmp_path / "s").digest == manifest.digest


CONTRADICTIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "no version": lambda m: m.pop("format_version"),
    "a field missing": lambda m: m.pop("skeleton"),
    "a field too many": lambda m: m.update(extra=1),
    "a file outside": lambda m: m["skeleton"].update(file="../skeleton"),
    "an absolute file": lambda m: m["shards"][0].update(file="/etc/passwd"),
    "a file without a name": lambda m: m["skeleton"].update(file=""),
    "a zero in a name": lambda m: m["skeleton"].update(file="a\0b"),
    "one file twice": lambda m: m["skeleton"].update(file=m["shards"][0]["file"]),
    "the manifest itself": lambda m: m["skeleton"].update(file=MANIFEST_FILE),
    "a digest that is none": lambda m: m["skeleton"].update(digest="abc"),
    "a chunk too few": lambda m: m["skeleton"].update(chunks=[]),
    "a chunk too many": lambda m: m["shards"][0]["chunks"].append("0" * 64),
    "chunks of another file": lambda m: m["skeleton"].update(chunks=["0" * 64]),
    "more bytes than chunks": lambda m: m["skeleton"].update(num_bytes=2**62),
    "a negative size": lambda m: m["skeleton"].update(num_bytes=-1),
    "a head too small to be one": lambda m: m["shards"][0].update(head_bytes=9),
    "tensors that overlap": lambda m: m["shards"][0]["tensors"][1].update(
        offset=m["shards"][0]["tensors"][0]["offset"]
    ),
    "two tensors of one name": lambda m: m["shards"][0]["tensors"][1].update(name="a"),
    "two references of one name": lambda m: m["views"][1].update(name="a"),
    "a stride too many": lambda m: m["views"][0].update(strides=[8, 8]),
    "a stride beyond all memory": lambda m: m["views"][0].update(strides=[2**70]),
    "a library without a name": lambda m: m["libraries"].update({"": "1"}),
    "a head larger than the file": lambda m: m["shards"][0].update(head_bytes=2**62, tensors=[]) or m.update(views=[]),
    "a tensor past the end": lambda m: m["shards"][0]["tensors"][0].update(num_bytes=10**6),
    "a tensor in the head": lambda m: m["shards"][0]["tensors"][0].update(offset=0),
    "a reference past the last tensor": lambda m: m["views"][0].update(tensor=2),
    "a reference outside its tensor": lambda m: m["views"][0].update(start=81),
    "an unknown form": lambda m: m["views"][0].update(form="jax"),
    "a python without numbers": lambda m: m.update(python="three"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradictory_manifest_is_refused(manifest: Manifest, what: str) -> None:
    with pytest.raises(snapshot.BadManifestError) as caught:
        parse_manifest(WHERE, changed(manifest, CONTRADICTIONS[what]))
    assert "canonical" not in str(caught.value), "refused for its spelling alone"


def test_a_change_that_contradicts_nothing_is_read(manifest: Manifest) -> None:
    assert (
        parse_manifest(WHERE, changed(manifest, lambda m: m["meta"].update(function="other"))).digest != manifest.digest
    )


@pytest.mark.parametrize("spelling", [lambda b: b + b"\n", lambda b: msgspec.json.format(b, indent=2)])
def test_another_spelling_is_refused_since_its_digest_would_differ(
    manifest: Manifest, spelling: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(snapshot.BadManifestError, match="canonical"):
        parse_manifest(WHERE, spelling(manifest.encode()))


def test_the_version_is_named_before_anything_else_is_looked_at() -> None:
    with pytest.raises(snapshot.FormatVersionError, match="format version 99, this program reads version 2"):
        parse_manifest(WHERE, b'{"format_version":99,"whatever":true}')


def test_a_manifest_over_the_limit_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / MANIFEST_FILE, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(snapshot.BadManifestError, match="has 1099511627776 bytes, more than the limit"):
        read_manifest(tmp_path)


def test_a_manifest_over_the_limit_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapshot.writer.MAX_MANIFEST_BYTES", 1000)
    with pytest.raises(snapshot.HeaderTooLargeError, match=r"manifest of .* limit of 1000"):
        snapshot.freeze([np.zeros(n) for n in range(20)], tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_no_snapshot_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(snapshot.SnapshotNotFoundError, match="no manifest"):
            read_manifest(folder)


def rewrite_view(folder: Path, change: dict[str, Any]) -> None:
    """Change the first view of a snapshot and nothing else, in canonical form."""
    manifest = read_manifest(folder)
    first, *others = manifest.views
    views = (msgspec.structs.replace(first, **change), *others)
    (folder / MANIFEST_FILE).unlink()
    (folder / MANIFEST_FILE).write_bytes(msgspec.structs.replace(manifest, views=views).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (11,)},
        {"start": 8},
        {"strides": (16,)},
        {"strides": (-8,)},
        {"strides": (2**63 - 1,), "shape": (3,)},
        {"strides": (-(2**63),), "shape": (3,)},
        {"shape": (2**62, 2**62), "strides": (0, 0)},
        {"shape": (0, 2**62, 2**62)},
        {"dtype": "<f9"},
        {"dtype": "|O"},
        {"dtype": "O,O"},
    ],
    ids=str,
)
def test_a_view_that_does_not_fit_its_array_is_no_wrong_value(tmp_path: Path, change: dict[str, Any]) -> None:
    snapshot.freeze([np.arange(10.0)], tmp_path / "s")
    rewrite_view(tmp_path / "s", change)
    with pytest.raises(snapshot.ThawError):
        snapshot.thaw(tmp_path / "s")


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (11,)},
        {"start": 4},
        {"start": 2, "shape": (9,)},
        {"strides": (8,)},
        {"strides": (6,), "shape": (3,)},
        {"strides": (2**63 - 4,), "shape": (3,)},
        {"strides": (-4,), "start": 36},
    ],
    ids=str,
)
def test_a_view_that_does_not_fit_its_tensor_is_no_wrong_value(tmp_path: Path, change: dict[str, Any]) -> None:
    snapshot.freeze([torch.arange(10.0)], tmp_path / "s")
    rewrite_view(tmp_path / "s", change)
    with pytest.raises(snapshot.ThawError, match=r"'0' (reaches past|has distances)"):
        snapshot.thaw(tmp_path / "s")


@pytest.mark.parametrize("change", [{"shape": [2001]}, {"start": 1}, {"shape": [20, 100]}], ids=str)
def test_a_run_of_bytes_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    manifest = snapshot.freeze(pickle.PickleBuffer(b"x" * 2000), tmp_path / "s")
    assert manifest.views[0].form == "buffer"
    with pytest.raises(snapshot.BadManifestError, match="no run of bytes"):
        parse_manifest(WHERE, changed(manifest, lambda m: m["views"][0].update(change)))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_changed_manifest_is_read_whole_or_refused(manifest: Manifest, data: st.DataObject) -> None:
    encoded = bytearray(manifest.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(encoded) - 1))
        if data.draw(st.booleans()):
            encoded[position] = data.draw(st.integers(0, 255))
        else:
            del encoded[position : position + data.draw(st.integers(1, 30))]
    try:
        read = parse_manifest(WHERE, bytes(encoded))
    except snapshot.SnapshotError:
        return
    assert read.encode() == encoded


@settings(max_examples=100, deadline=None)
@given(encoded=st.binary(max_size=200))
def test_any_bytes_are_refused(encoded: bytes) -> None:
    with pytest.raises(snapshot.BadManifestError):
        parse_manifest(WHERE, encoded)
