import io
import json
import os
import tracemalloc
from math import prod
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from snapshot import BadHeaderError, HeaderTooLargeError, SizeMismatchError, SnapshotError
from snapshot.format import (
    ALIGNMENT,
    DTYPE_BITS,
    FILLER_PREFIX,
    Header,
    Placement,
    lay_out,
    parse_header,
    read_header,
    write_file,
)
from snapshot.mapping import opened

WHERE = Path("some.safetensors")


def read(path: Path, **limits: int) -> Header:
    with opened(path) as descriptor:
        return read_header(path, descriptor, **limits)


def file_of(entries: object, data_bytes: int = 0) -> bytes:
    encoded = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(encoded).to_bytes(8, "little") + encoded + bytes(data_bytes)


def write(path: Path, placements: list[Placement], contents: list[bytes]) -> None:
    with open(path, "wb") as file:
        write_file(file, lay_out(placements), [[content] for content in contents])


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_other_readers_open_what_we_write(tmp_path: Path, dtype: str) -> None:
    shapes = {"odd": (3, 5, 8), "empty": (0, 7), "scalar": () if DTYPE_BITS[dtype] >= 8 else (4,)}
    placements = [Placement(name, dtype, shape, prod(shape) * DTYPE_BITS[dtype] // 8) for name, shape in shapes.items()]
    write(tmp_path / "f", placements, [b"\1" * p.num_bytes for p in placements])
    with safe_open(tmp_path / "f", "pt") as theirs:
        names = theirs.keys()
        slices = {name: theirs.get_slice(name) for name in names if not name.startswith(FILLER_PREFIX)}
        assert {name: tuple(one.get_shape()) for name, one in slices.items()} == shapes
        assert {one.get_dtype() for one in slices.values()} == {dtype}


def test_every_tensor_is_aligned_and_in_order(tmp_path: Path) -> None:
    placements = [Placement(f"t{size}", "U8", (size,), size) for size in (1, 64, 63, 200, 0, 5)]
    layout = lay_out(placements)
    write(tmp_path / "f", placements, [bytes([p.num_bytes % 251]) * p.num_bytes for p in placements])
    assert list(layout.offsets) == sorted(layout.offsets)
    assert all(offset % ALIGNMENT == 0 for offset in layout.offsets)
    content = (tmp_path / "f").read_bytes()
    assert len(content) == layout.file_bytes
    for placement, offset in zip(placements, layout.offsets, strict=True):
        assert set(content[offset : offset + placement.num_bytes]) <= {placement.num_bytes % 251}
    header = read(tmp_path / "f")
    for placement, offset in zip(placements, layout.offsets, strict=True):
        assert header.entries[placement.name].data_offsets[0] + header.data_start == offset


def test_writing_other_bytes_than_laid_out_is_an_error() -> None:
    layout = lay_out([Placement("a", "U8", (4,), 4)])
    with pytest.raises(ValueError, match="laid out"):
        write_file(io.BytesIO(), layout, [[b"12345"]])


@pytest.mark.parametrize(
    "content", [(2**62).to_bytes(8, "little") + b"{}      ", (5000).to_bytes(8, "little") + b" " * 52]
)
def test_st_08_claimed_length_is_refused_without_allocation(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(BadHeaderError, match="claims a header"):
            read(tmp_path / "f")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_st_08_header_over_the_limit_is_refused_though_the_file_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with open(path, "wb") as file:
        file.write((100_000_001).to_bytes(8, "little"))
    os.truncate(path, 100_000_100)
    with pytest.raises(BadHeaderError, match="limit"):
        read(path)


def test_st_08_writer_holds_the_readers_limit(tmp_path: Path) -> None:
    placements = [Placement("n" * 1000 + str(i), "U8", (1,), 1) for i in range(50)]
    with pytest.raises(HeaderTooLargeError, match="50 tensors"):
        lay_out(placements, max_header_bytes=10_000)
    largest = len(lay_out(placements).head) - 8
    write(tmp_path / "f", placements, [b"x"] * 50)
    assert len(lay_out(placements, max_header_bytes=largest).head) == largest + 8
    assert len(read(tmp_path / "f", max_header_bytes=largest).entries) > 50


A = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}

CONTRADICTIONS = {
    "not json": (b"\xff\xfe{", 0),
    "a list": ([1], 0),
    "no dtype": ({"a": {"shape": [4], "data_offsets": [0, 4]}}, 4),
    "negative size": ({"a": A | {"shape": [-4]}}, 4),
    "fractional size": ({"a": A | {"shape": [4.5]}}, 4),
    "sizes that wrap around": ({"a": A | {"shape": [2**63, 2**63, 4]}}, 4),
    "sizes beyond any integer": ({"a": A | {"shape": [10**400]}}, 4),
    "too many dimensions": ({"a": A | {"shape": [1] * 65 + [4]}}, 4),
    "shape against offsets": ({"a": A | {"shape": [5]}}, 4),
    "end before begin": ({"a": A | {"data_offsets": [4, 0]}}, 4),
    "begins past zero": ({"a": A | {"data_offsets": [4, 8]}}, 8),
    "a hole": ({"a": A, "b": A | {"data_offsets": [8, 12]}}, 12),
    "an overlap": ({"a": A, "b": A | {"data_offsets": [2, 6]}}, 6),
    "a name given twice": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
        8,
    ),
    "a name given twice, for the same bytes": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}',
        4,
    ),
    "a name given twice, spelt in two ways": (
        rb'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\u0061":{"dtype":"I8","shape":[4],'
        rb'"data\u005foffsets":[0,4]}}',
        4,
    ),
    "metadata that is no text": ({"__metadata__": {"a": 1}, "a": A}, 4),
    "deep nesting": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 0),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradictory_headers_are_refused(tmp_path: Path, what: str) -> None:
    entries, data_bytes = CONTRADICTIONS[what]
    (tmp_path / "f").write_bytes(file_of(entries, data_bytes))
    with pytest.raises(BadHeaderError):
        read(tmp_path / "f")


@pytest.mark.parametrize("data_bytes", [3, 5])
def test_a_file_cut_short_or_too_long_is_refused_with_both_sizes(tmp_path: Path, data_bytes: int) -> None:
    (tmp_path / "f").write_bytes(file_of({"a": A}, data_bytes))
    with pytest.raises(SizeMismatchError, match=f"4 bytes of data, the file holds {data_bytes}"):
        read(tmp_path / "f")


def test_a_missing_file_is_one_of_our_errors(tmp_path: Path) -> None:
    with pytest.raises(SizeMismatchError, match="No such file"):
        read(tmp_path / "f")


@pytest.mark.parametrize("size", range(8))
def test_a_file_without_a_whole_length_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "f").write_bytes(b"\0" * size)
    with pytest.raises(BadHeaderError, match="too few"):
        read(tmp_path / "f")


def test_metadata_and_foreign_order_are_read(tmp_path: Path) -> None:
    entries = {"b": A | {"data_offsets": [4, 8]}, "__metadata__": {"format": "pt"}, "a": A}
    (tmp_path / "f").write_bytes(file_of(entries, 8))
    header = read(tmp_path / "f")
    assert header.metadata == {"format": "pt"}
    assert list(header.entries) == ["b", "a"]


@pytest.mark.parametrize("metadata", [None, {}])
def test_metadata_may_be_nothing(tmp_path: Path, metadata: object) -> None:
    (tmp_path / "f").write_bytes(file_of({"__metadata__": metadata, "a": A}, 4))
    assert read(tmp_path / "f").metadata == {}


def test_names_of_any_kind_are_no_repetition(tmp_path: Path) -> None:
    names = ["data_offsets", 'a"data_offsets"b', "a\\b", "a"]
    entries = {name: A | {"data_offsets": [4 * n, 4 * n + 4]} for n, name in enumerate(names)}
    (tmp_path / "f").write_bytes(file_of(entries, 16))
    assert list(read(tmp_path / "f").entries) == names


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
entries_alike = st.dictionaries(
    st.text(max_size=4),
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["U8", "F32", "BF16", "F4", "", "F99"]),
            "shape": st.lists(st.integers(-1, 2**70), max_size=3),
            "data_offsets": st.lists(st.integers(-1, 20), min_size=1, max_size=3),
        }
    )
    | json_values,
    max_size=4,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    encoded=st.binary(max_size=80) | entries_alike.map(msgspec.json.encode) | json_values.map(msgspec.json.encode),
    data_bytes=st.integers(0, 40),
)
def test_any_header_is_read_whole_or_refused(encoded: bytes, data_bytes: int) -> None:
    try:
        header = parse_header(WHERE, encoded, 8 + len(encoded) + data_bytes)
    except SnapshotError:
        return
    assert sum(end - begin for begin, end in (e.data_offsets for e in header.entries.values())) == data_bytes


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0, 250), value=st.integers(0, 255), cut=st.integers(0, 300))
def test_any_changed_byte_is_read_whole_or_refused(position: int, value: int, cut: int) -> None:
    stream = io.BytesIO()
    placements = [Placement("first", "F32", (2, 2), 16), Placement("second", "I64", (3,), 24)]
    layout = lay_out(placements)
    write_file(stream, layout, [[b"1" * 16], [b"2" * 12, b"2" * 12]])
    content = bytearray(stream.getvalue())
    content[position % len(content)] = value
    content = content[: len(content) - cut] if cut < 20 else content
    try:
        header = parse_header(WHERE, bytes(content[8 : len(layout.head)]), len(content))
    except SnapshotError:
        return
    assert all(end <= len(content) - header.data_start for _, end in (e.data_offsets for e in header.entries.values()))


def test_what_a_writer_notes_besides_is_passed_over_as_by_other_readers(tmp_path: Path) -> None:
    path = tmp_path / "noted.safetensors"
    path.write_bytes(file_of({"a": A | {"strides": [1], "note": {"b": A}}}, 4))
    with safe_open(path, "numpy") as theirs:
        assert theirs.get_tensor("a").tolist() == [0, 0, 0, 0]
    assert list(read(path).entries) == ["a"]
