import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import snapshot
from snapshot import arrays

Roundtrip = Callable[[Any], Any]

ST_02 = {
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "square fortran": np.asfortranarray(np.arange(9).reshape(3, 3)),
    "strided": np.arange(12).reshape(3, 4)[:, ::2],
    "big-endian": np.arange(4, dtype=">f4"),
    "0-d": np.array(7.5),
    "reversed": np.arange(10)[::-1],
    "transposed slice": np.arange(60).reshape(3, 4, 5).transpose(2, 0, 1)[1:4, :, ::3],
    "broadcast": np.broadcast_to(np.arange(5.0), (1000, 5)),
    "empty": np.zeros((0, 3), dtype="f2"),
    "bool": np.array([[True], [False]]),
    "complex128": np.array([1 + 2j]),
    "text": np.array(["a", "grüße"]),
    "bytes": np.array([b"ab", b"c"]),
    "dates": np.array(["2026-11-29", "NaT"], dtype="M8[D]"),
    "longdouble": np.array([1.5], dtype=np.longdouble),
    "records": np.array([(1, 2.5), (3, 4.5)], dtype=np.dtype([("a", "u1"), ("b", "<f8")], align=True)),
    "void": np.zeros(3, dtype="V7"),
    "objects": np.array([{"a": 1}, None], dtype=object),
    "records of objects": np.array([(1, [2])], dtype=[("a", int), ("b", object)]),
}


@pytest.mark.parametrize("case", ST_02)
def test_st_02_every_order_and_type_comes_back_equal(roundtrip: Roundtrip, case: str) -> None:
    array = ST_02[case]
    back = roundtrip({"array": array})["array"]
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    assert back.dtype.isalignedstruct == array.dtype.isalignedstruct
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_a_read_only_array_comes_back_read_only_and_the_one_it_views_does_not(roundtrip: Roundtrip) -> None:
    whole = np.arange(20.0)
    fixed = whole[::2]
    records = np.array([(1, 2.5)], dtype=[("a", "u1"), ("b", "<f8")])
    fixed.flags.writeable = records.flags.writeable = False
    back = roundtrip({"whole": whole, "fixed": fixed, "records": records})
    assert back["whole"].flags.writeable
    assert not back["fixed"].flags.writeable
    assert not back["records"].flags.writeable
    back["whole"][2] = -1.0
    assert back["fixed"][1] == -1.0
    with pytest.raises(ValueError, match="read-only"):
        back["fixed"][0] = 1.0


class Labelled(np.ndarray):
    """An array with an attribute."""

    label: str


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_the_memory_of_subclasses_is_mapped_and_their_attributes_come_back(tmp_path: Path) -> None:
    labelled = np.arange(6000.0).view(Labelled)
    labelled.label = "six"
    records = np.rec.array(np.zeros(1000, [("a", "<f4"), ("b", "<i4")]))
    manifest = snapshot.freeze([labelled, np.matrix(np.eye(50)), records, labelled], tmp_path / "s")
    assert manifest.skeleton.num_bytes < 2000
    back, matrix, rec, again = snapshot.thaw(tmp_path / "s").state
    assert type(back) is Labelled
    assert (back.label, back.sum(), again is back) == ("six", labelled.sum(), True)
    assert type(matrix) is np.matrix
    assert (matrix * matrix == np.eye(50)).all()
    assert type(rec) is np.recarray
    assert rec.a.dtype == np.float32
    assert rec.b.sum() == 0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_st_02_any_view_of_any_array_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    dtype = data.draw(hnp.scalar_dtypes() | hnp.array_dtypes())
    base = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)))
    array = data.draw(st.permutations(range(base.ndim)).map(base.transpose))
    array = array[data.draw(hnp.basic_indices(array.shape, allow_ellipsis=False))]
    folder = tmp_path_factory.mktemp("any") / "s"
    snapshot.freeze([base, array], folder)
    base_back, back = snapshot.thaw(folder).state
    assert np.asarray(back).tobytes() == np.asarray(array).tobytes()
    assert base_back.tobytes() == base.tobytes()
    assert back.dtype == array.dtype
    if isinstance(array, np.ndarray) and array.size and not array.dtype.hasobject and np.shares_memory(array, base):
        assert np.shares_memory(back, base_back)


def test_other_readers_never_see_a_matrix_in_the_wrong_order(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    square = np.asfortranarray(np.arange(9.0).reshape(3, 3))
    manifest = snapshot.freeze({"f": square, "s": np.arange(12).reshape(3, 4)[:, ::2]}, tmp_path / "s")
    theirs = load_file(tmp_path / "s" / manifest.shards[0].file)
    assert theirs["f"].ndim == 1
    np.testing.assert_array_equal(theirs["s"], np.arange(12).reshape(3, 4)[:, ::2])


def test_layout_without_gaps_is_kept(roundtrip: Roundtrip) -> None:
    array = np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0)
    assert roundtrip([array])[0].strides == array.strides


def test_views_share_memory_again_whichever_is_met_first(roundtrip: Roundtrip) -> None:
    whole = np.arange(100)
    left, right, alias, reverse = roundtrip([whole[:60], whole[40:], whole[:60], whole[50:30:-1]])
    assert left is not alias
    left[45] = -1
    assert right[5] == alias[45] == reverse[5] == -1


def test_one_array_met_twice_is_one_array(roundtrip: Roundtrip) -> None:
    array = np.arange(3)
    first, second = roundtrip([array, array])
    assert first is second


def test_only_the_reachable_part_of_a_large_array_is_written(tmp_path: Path) -> None:
    large = np.zeros(1_000_000)
    assert snapshot.freeze([large[10:20], large[900:910]], tmp_path / "s").tensor_bytes == 160


def test_subclasses_keep_their_class(roundtrip: Roundtrip) -> None:
    masked = np.ma.masked_array(np.arange(50), mask=np.arange(50) % 2 == 0)
    records = np.zeros(3, dtype=[("a", "u1"), ("b", "f8")]).view(np.recarray)
    back = roundtrip([masked, records])
    assert [type(one) for one in back] == [np.ma.MaskedArray, np.recarray]
    np.testing.assert_array_equal(back[0].filled(-1), masked.filled(-1))
    np.testing.assert_array_equal(back[1].b, records.b)


def test_a_class_of_a_module_that_nobody_imported_yet_goes_by_reference(tmp_path: Path) -> None:
    assert "numpy" in snapshot.freeze(np.zeros(3).view(np.recarray), tmp_path / "s").libraries
    assert "cloudpickle" not in snapshot.read_manifest(tmp_path / "s").libraries


class Frame:
    """Offers its memory out of band, as data frames do."""

    def __init__(self, memory: object) -> None:
        self.memory = memory

    def __reduce_ex__(self, protocol: int) -> tuple[type, tuple[pickle.PickleBuffer]]:
        return Frame, (pickle.PickleBuffer(self.memory),)


@pytest.mark.parametrize("size", [10, 5000])
def test_memory_offered_out_of_band_comes_back(tmp_path: Path, size: int) -> None:
    manifest = snapshot.freeze([Frame(bytearray(b"x" * size)), Frame(b"y" * size)], tmp_path / "s")
    assert manifest.tensor_bytes == (2 * size if size > 1024 else 0)
    first, second = snapshot.thaw(tmp_path / "s").state
    assert bytes(first.memory) == b"x" * size
    assert bytes(second.memory) == b"y" * size
    assert memoryview(second.memory).readonly


def test_a_memory_mapped_array_comes_back_as_a_mapped_array(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "raw", dtype="f4", mode="w+", shape=(100, 3))
    mapped[:] = 5
    manifest = snapshot.freeze(mapped, tmp_path / "s")
    assert manifest.tensor_bytes == 1200
    back = snapshot.thaw(tmp_path / "s").state
    assert type(back) is np.ndarray
    np.testing.assert_array_equal(back, mapped)


def test_types_that_numpy_knows_only_by_an_extension_stay_themselves(roundtrip: Roundtrip) -> None:
    with_metadata = np.dtype("f4", metadata={"unit": "m"})
    assert not arrays.is_plain(np.zeros(2, with_metadata))
    assert roundtrip([np.zeros(2, with_metadata)])[0].dtype.metadata == {"unit": "m"}
    strings = np.array(["a", "long" * 100], dtype=np.dtypes.StringDType())
    assert roundtrip([strings])[0].tolist() == strings.tolist()
