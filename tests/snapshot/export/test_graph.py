"""Sessions that take any number of rows, and say by name what they do not take."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import snapshot
from snapshot.errors import InputMismatch
from snapshot.export.graph import OnnxGraph


def doubling(batch: int | str) -> OnnxGraph:
    """The model y = 2x of rows of three, for batches of this size."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in "xy")
    two = helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])
    return opened([helper.make_node("Mul", ["x", "two"], ["y"])], [x], [y], [two])


def opened(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any]) -> OnnxGraph:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )
    onnx.checker.check_model(model)
    return OnnxGraph(onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))


@pytest.fixture
def ids_and_x() -> OnnxGraph:
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    outputs = [helper.make_tensor_value_info(n, t, s) for n, t, s in
               (("same", TensorProto.INT64, ["n"]), ("y", TensorProto.FLOAT, ["n", 2]))]  # fmt: skip
    nodes = [helper.make_node("Identity", ["ids"], ["same"]), helper.make_node("Identity", ["x"], ["y"])]
    return opened(nodes, [ids, x], outputs, [])


@pytest.mark.parametrize("batch", [1, 4, "n"])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8])
def test_or_01_a_batch_of_any_size_is_answered_whatever_the_model_was_made_for(batch: int | str, rows: int) -> None:
    x = np.arange(rows * 3, dtype="f4").reshape(rows, 3)
    assert doubling(batch).run({"x": x})["y"].tolist() == (2 * x).tolist()


@pytest.mark.parametrize(("batch", "words"), [(1, "one by one"), (4, "padded")])
def test_or_01_the_log_says_how_batches_are_run(batch: int, words: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "snapshot"):
        assert doubling(batch).fixed_batch == batch
        assert words in caplog.text
        caplog.clear()
        assert doubling("n").fixed_batch is None
        assert not caplog.text


def vi(name: str, kind: int, shape: list[int | str] | None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize("batch", [1, 4])
def test_or_01_an_input_without_axes_is_for_all_rows(batch: int, rows: int) -> None:
    inputs = [vi("factor", TensorProto.FLOAT, []), vi("x", TensorProto.FLOAT, [batch, 3])]
    mul = helper.make_node("Mul", ["x", "factor"], ["y"])
    graph = opened([mul], inputs, [vi("y", TensorProto.FLOAT, [batch, 3])], [])
    x = np.arange(rows * 3, dtype="f4").reshape(rows, 3)
    assert graph.run({"x": x, "factor": 3})["y"].tolist() == (3 * x).tolist()


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize("batch", [1, 4])
def test_or_01_answers_that_are_maps_are_joined_too(batch: int, rows: int) -> None:
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[5, 6])
    z = helper.make_value_info("z", helper.make_sequence_type_proto(kind))
    graph = opened([node], [vi("x", TensorProto.FLOAT, [batch, 2])], [z], [])
    x = [[row, row + 0.5] for row in range(rows)]
    assert graph.run({"x": x})["z"] == [{5: one, 6: other} for one, other in x]


@pytest.mark.parametrize("batch", [1, 4])
def test_or_01_a_model_that_does_not_answer_row_by_row_says_so(batch: int) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Transpose", ["places"], ["y"])]
    graph = opened(nodes, [vi("x", TensorProto.FLOAT, [batch, 3])], [vi("y", TensorProto.INT64, ["found", 2])], [])
    whole = graph.run({"x": np.ones((batch, 3), "f4")})["y"]
    assert len(whole) == 3 * batch
    with pytest.raises(InputMismatch, match=r"input 'x': got 3 rows, wanted \d: the model does not answer row by row"):
        graph.run({"x": np.ones((3, 3), "f4")})


def test_or_01_no_rows_are_refused_where_the_batch_is_fixed() -> None:
    with pytest.raises(InputMismatch, match="input 'x': got no rows, wanted one or more"):
        doubling(4).run({"x": np.ones((0, 3), "f4")})
    assert doubling("n").run({"x": np.ones((0, 3), "f4")})["y"].tolist() == []


@pytest.mark.parametrize("given", [np.array([1, 2], "i4"), [1, 2], [1.0, 2.0]])
def test_or_02_integers_are_taken_however_they_are_spelt(ids_and_x: OnnxGraph, given: Any) -> None:
    for x in ([[1, 2], [3, 4]], np.array([[1.0, 2.0], [3.0, 4.0]])):
        answer = ids_and_x.run({"ids": given, "x": x})
        assert answer["same"].tolist() == [1, 2]
        assert answer["y"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"ids": [1.5], "x": [[1, 2]]}, "ids"),
        ({"ids": [1], "x": [1, 2]}, "x"),
        ({"ids": [1], "x": [[1, 2]], "other": [1]}, "other"),
        ({"ids": [1]}, "x"),
    ],
)
def test_or_02_what_does_not_fit_is_refused_by_name(ids_and_x: OnnxGraph, given: dict[str, Any], name: str) -> None:
    with pytest.raises(InputMismatch, match=f"input '{name}'"):
        ids_and_x.run(given)


def test_a_graph_is_frozen_with_its_session(tmp_path: Path) -> None:
    snapshot.freeze({"graph": doubling(4)}, tmp_path / "s")
    back = snapshot.thaw(tmp_path / "s").state["graph"]
    assert back.run({"x": np.ones((3, 3), "f4")})["y"].tolist() == [[2.0] * 3] * 3


def same(kind: int, shape: list[int | str] | None) -> OnnxGraph:
    return opened([helper.make_node("Identity", ["x"], ["y"])], [vi("x", kind, shape)], [vi("y", kind, shape)], [])


def test_or_02_an_input_of_any_rank_takes_any_and_a_number_only_one() -> None:
    x, y = (vi(name, TensorProto.FLOAT, None) for name in "xy")
    identity = unchecked(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "tiny", [x], [y]))
    for x in (3.0, [1.0, 2.0], [[1.0, 2.0]]):
        assert identity.run({"x": x})["y"].tolist() == x
    with pytest.raises(InputMismatch, match=r"input 'x': got float64\[1\], wanted float32\[\]"):
        same(TensorProto.FLOAT, []).run({"x": [1.0]})


def test_an_input_of_any_rank_is_so_in_a_file_and_after_a_thaw_too(tmp_path: Path) -> None:
    x, y = (vi(name, TensorProto.FLOAT, None) for name in "xy")
    graph = unchecked(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "tiny", [x], [y]))
    (tmp_path / "model.onnx").write_bytes(graph.session._model_bytes)
    snapshot.freeze(OnnxGraph(onnxruntime.InferenceSession(tmp_path / "model.onnx")), tmp_path / "s")
    assert snapshot.thaw(tmp_path / "s").state.run({"x": [[1.0]]})["y"].tolist() == [[1.0]]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (tmp_path / "model.onnx").unlink()
    assert OnnxGraph(session).run({"x": 1.0})["y"].tolist() == 1.0


def unchecked(graph: onnx.GraphProto) -> OnnxGraph:
    """Of a model that the checker refuses, and exporters write all the same."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return OnnxGraph(onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))


def test_or_02_texts_are_taken_whole() -> None:
    texts = ["zero at the end\0", "\0", "", "ü日本😀"]
    for given in (texts, np.array(texts, object)):
        assert same(TensorProto.STRING, ["n"]).run({"x": given})["y"].tolist() == texts


def test_or_02_axes_that_should_be_of_one_length_are_named_where_the_model_fails() -> None:
    inputs = [vi(name, TensorProto.INT64, ["batch", "length"]) for name in ("ids", "mask")]
    add = helper.make_node("Add", ["ids", "mask"], ["y"])
    graph = opened([add], inputs, [vi("y", TensorProto.INT64, ["batch", "length"])], [])
    assert graph.run({"ids": [[1, 2]], "mask": [[3]]})["y"].tolist() == [[4, 5]]  # the model takes it
    with pytest.raises(InputMismatch, match=r"input 'mask': got 2 as 'length', wanted 3, which 'length' is in 'ids'"):
        graph.run({"ids": [[1, 2, 3]], "mask": [[1, 2]]})


@pytest.mark.parametrize("batch", [1, 4])
def test_or_01_an_answer_of_axes_that_are_not_told_is_joined_where_it_has_rows(batch: int) -> None:
    x = np.arange(9, dtype="f4").reshape(3, 3)
    ins, outs = [vi("x", TensorProto.FLOAT, [batch, 3])], [vi("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "tiny", ins, outs)
    assert unchecked(graph).run({"x": x})["y"].tolist() == x.tolist()
    graph = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], "tiny", ins, outs)
    assert float(unchecked(graph).run({"x": np.ones((batch, 3))})["y"]) == 3.0 * batch
    with pytest.raises(InputMismatch, match="does not answer row by row"):
        unchecked(graph).run({"x": x})
