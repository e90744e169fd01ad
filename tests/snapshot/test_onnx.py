import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import snapshot
from snapshot.onnx_model import external_files
from snapshot.onnx_session import open_session
from tests.snapshot.onnx_bytes import adder, field, tensor

Roundtrip = Callable[[Any], Any]
WEIGHTS = np.arange(4, dtype="f4")
INLINE = adder(tensor("w", 4, raw=WEIGHTS.tobytes()), 4)
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
CPU = ["CPUExecutionProvider"]


def session_on(model: Path | bytes, **options: object) -> onnxruntime.InferenceSession:
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = 1
    for name, value in options.items():
        setattr(session_options, name, value)
    return onnxruntime.InferenceSession(model, session_options, providers=CPU)


def answer(session: onnxruntime.InferenceSession) -> list[float]:
    return session.run(None, {"x": np.ones(4, "f4")})[0].tolist()


@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_session_answers_as_before(tmp_path: Path, as_bytes: bool) -> None:
    path = tmp_path / "adder.onnx"
    path.write_bytes(INLINE)
    session = session_on(INLINE if as_bytes else path)
    manifest = snapshot.freeze({"session": session, "same": session}, tmp_path / "s")
    path.unlink()
    snapshot.verify(tmp_path / "s")
    back = snapshot.thaw(tmp_path / "s").state
    assert back["session"] is back["same"]
    assert answer(back["session"]) == [1.0, 2.0, 3.0, 4.0]
    assert [file.file for file in manifest.files] == ["files/0/model.onnx" if as_bytes else "files/0/adder.onnx"]
    assert "onnxruntime" in manifest.libraries


@pytest.mark.parametrize("level", [ALL, OFF])
def test_a_session_that_was_given_initializers_is_refused(tmp_path: Path, level: Any) -> None:
    given = onnxruntime.OrtValue.ortvalue_from_numpy(WEIGHTS * 7)
    session_options = onnxruntime.SessionOptions()
    session_options.graph_optimization_level = level
    session_options.add_initializer("w", given)
    session = onnxruntime.InferenceSession(INLINE, session_options, providers=CPU)
    with pytest.raises(snapshot.Unfreezable, match=r"state\['session'\]: .* given initializers in memory"):
        snapshot.freeze({"session": session}, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_session_whose_file_was_overwritten_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "adder.onnx"
    path.write_bytes(INLINE)
    session = session_on(path)
    path.write_bytes(adder(tensor("w", 4, raw=(WEIGHTS + 1).tobytes()), 4))
    with pytest.raises(snapshot.Unfreezable, match="the files have changed since it was opened"):
        snapshot.freeze([session], tmp_path / "s")


def random_session() -> onnxruntime.InferenceSession:
    node = helper.make_node("RandomNormal", [], ["y"], shape=[3])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])]
    graph = helper.make_graph([node], "random", [], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=CPU)


def test_a_session_that_draws_random_numbers_is_kept(roundtrip: Roundtrip) -> None:
    assert roundtrip(random_session()).run(None, {})[0].shape == (3,)


def test_weights_in_another_file_are_kept_beside_the_model(tmp_path: Path) -> None:
    home = tmp_path / "model"
    (home / "data").mkdir(parents=True)
    (home / "data" / "w.bin").write_bytes(WEIGHTS.tobytes())
    (home / "adder.onnx").write_bytes(adder(tensor("w", 4, location="data/w.bin"), 4))
    manifest = snapshot.freeze([session_on(home / "adder.onnx", graph_optimization_level=OFF)], tmp_path / "s")
    assert {file.file for file in manifest.files} == {"files/0/adder.onnx", "files/0/data/w.bin"}
    (home / "data" / "w.bin").unlink()
    assert answer(snapshot.thaw(tmp_path / "s").state[0]) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("where", ["inside", "in a file", "as bytes"])
def test_the_optimised_model_is_kept_and_its_large_weights_are_mapped(tmp_path: Path, where: str) -> None:
    weights = np.arange(2000, dtype="f4")
    (tmp_path / "w.bin").write_bytes(weights.tobytes())
    content = adder(
        tensor("w", 2000, location="w.bin") if where == "in a file" else tensor("w", 2000, raw=weights.tobytes()), 2000
    )
    (tmp_path / "adder.onnx").write_bytes(content)
    manifest = snapshot.freeze(session_on(content if where == "as bytes" else tmp_path / "adder.onnx"), tmp_path / "s")
    (tmp_path / "w.bin").unlink()
    name = "model.onnx" if where == "as bytes" else "adder.onnx"
    assert {file.file for file in manifest.files} == {f"files/0/{name}", f"files/0/{name}.data"}
    assert external_files(memoryview((tmp_path / "s" / "files" / "0" / name).read_bytes())) == [f"{name}.data"]
    snapshot.freeze(snapshot.thaw(tmp_path / "s").state, tmp_path / "again")
    back = snapshot.thaw(tmp_path / "again").state
    np.testing.assert_array_equal(back.run(None, {"x": np.ones(2000, "f4")})[0], weights + 1)
    assert back.get_session_options().graph_optimization_level == ALL


def test_nothing_is_left_of_the_optimising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    snapshot.freeze([session_on(INLINE)], tmp_path / "s")
    gc.collect()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_model_that_onnxruntime_cannot_write_is_kept_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, opened = session_on(INLINE), onnxruntime.InferenceSession.__init__

    def refuse(made: Any, model: Any, options: onnxruntime.SessionOptions, **more: Any) -> None:
        if options.optimized_model_filepath:
            raise RuntimeError("this model has operators that cannot be written")
        opened(made, model, options, **more)

    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime.InferenceSession, "__init__", refuse)
        manifest = snapshot.freeze(session, tmp_path / "s")
    assert [file.num_bytes for file in manifest.files] == [len(INLINE)]
    assert answer(snapshot.thaw(tmp_path / "s").state) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_model_in_onnxruntimes_own_format_answers_as_before(tmp_path: Path, as_bytes: bool) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "adder.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(INLINE, options, providers=CPU)
    session = session_on((tmp_path / "adder.ort").read_bytes() if as_bytes else tmp_path / "adder.ort")
    manifest = snapshot.freeze(session, tmp_path / "s")
    assert manifest.files[0].file.endswith(".ort")
    assert answer(snapshot.thaw(tmp_path / "s").state) == [1.0, 2.0, 3.0, 4.0]


def test_a_provider_that_is_lacking_here_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "adder.onnx").write_bytes(INLINE)
    frozen_on = [("CUDAExecutionProvider", {"device_id": "0"}), ("CPUExecutionProvider", {})]
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):  # onnxruntime's own, where it knows of none
        session = open_session(tmp_path, "adder.onnx", {"attributes": {}, "config": {}}, frozen_on)
    assert answer(session) == [1.0, 2.0, 3.0, 4.0]
    assert "adder.onnx was frozen on CUDAExecutionProvider, and runs on CPUExecutionProvider" in caplog.text


def test_a_model_given_as_bytes_with_weights_elsewhere_is_refused(tmp_path: Path) -> None:
    session = session_on(INLINE)
    session._model_bytes = adder(tensor("w", 4, location="w.bin"), 4)
    with pytest.raises(snapshot.Unfreezable, match=r"weights in files \(w\.bin\): open it by path"):
        snapshot.freeze(session, tmp_path / "s")
    session._model_bytes = None
    with pytest.raises(snapshot.Unfreezable, match="does not know its model's file"):
        snapshot.freeze(session, tmp_path / "s")


def test_options_and_providers_come_back(roundtrip: Roundtrip) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.disable_prepacking", "1")
    back = roundtrip(onnxruntime.InferenceSession(INLINE, options, providers=CPU))
    assert back.get_providers() == CPU
    found = back.get_session_options()
    assert found.intra_op_num_threads == 2
    assert found.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert found.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert not found.enable_mem_pattern
    assert found.get_session_config_entry("session.disable_prepacking") == "1"


@pytest.mark.parametrize(("frozen", "asked", "expected"), [(0, None, 0), (0, 3, 3), (2, 3, 2), (2, None, 2)])
def test_threads_left_open_are_those_that_thawing_asks_for(
    tmp_path: Path, frozen: int, asked: int | None, expected: int
) -> None:
    snapshot.freeze(session_on(INLINE, intra_op_num_threads=frozen), tmp_path / "s")
    back = snapshot.thaw(tmp_path / "s", num_threads=asked).state
    assert back.get_session_options().intra_op_num_threads == expected


def test_a_thawed_session_can_be_frozen_again(roundtrip: Roundtrip) -> None:
    assert answer(roundtrip(roundtrip([session_on(INLINE)]))[0]) == [1.0, 2.0, 3.0, 4.0]


def test_a_session_whose_model_is_gone_is_refused_by_path(tmp_path: Path) -> None:
    path = tmp_path / "adder.onnx"
    path.write_bytes(INLINE)
    session = session_on(path)
    path.unlink()
    with pytest.raises(snapshot.Unfreezable, match=r"state\['s'\]: .*adder.onnx"):
        snapshot.freeze({"s": session}, tmp_path / "s")


def test_a_session_of_a_class_of_its_own_is_refused(tmp_path: Path) -> None:
    class Mine(onnxruntime.InferenceSession):
        pass

    with pytest.raises(snapshot.Unfreezable, match=r"Mine .* register a reducer"):
        snapshot.freeze(Mine(INLINE, providers=CPU), tmp_path / "s")


def test_weights_outside_the_models_folder_are_refused(tmp_path: Path) -> None:
    session = session_on(INLINE)
    home = tmp_path / "model"
    home.mkdir()
    (home / "m.onnx").write_bytes(adder(tensor("w", 4, location="../w.bin"), 4))
    session._model_path, session._model_bytes = str(home / "m.onnx"), None
    with pytest.raises(snapshot.Unfreezable, match=r"outside its own folder, in \.\./w\.bin"):
        snapshot.freeze(session, tmp_path / "s")


def test_external_files_are_found_wherever_tensors_may_be() -> None:
    inner = field(5, tensor("deep", 1, location="deep.bin"))
    attribute = field(6, inner) + field(5, tensor("value", 1, location="value.bin"))
    sparse = field(1, tensor("v", 1, location="sparse.bin")) + field(2, tensor("i", 1, raw=b"1234"))
    graph = (
        field(1, field(4, "If") + field(5, attribute)) + field(15, sparse) + field(5, tensor("w", 1, location="w.bin"))
    )
    graph += field(5, tensor("again", 1, location="w.bin"))
    model = field(1, 8) + field(7, graph) + field(25, field(7, field(5, attribute)))
    assert sorted(external_files(memoryview(model))) == ["deep.bin", "sparse.bin", "value.bin", "w.bin"]
    assert external_files(memoryview(INLINE)) == []


@pytest.mark.parametrize(
    "broken", [INLINE[:-3], b"\x0f", b"\xff" * 11, b"\x0b"], ids=["cut", "wire type", "number", "group"]
)
def test_what_is_no_model_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an ONNX model|claims"):
        external_files(memoryview(broken))


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, len(INLINE) - 1), value=st.integers(0, 255))
def test_any_changed_model_is_read_or_refused(position: int, value: int) -> None:
    changed = bytearray(INLINE)
    changed[position] = value
    try:
        external_files(memoryview(bytes(changed)))
    except ValueError:
        return


def choosing() -> bytes:
    """The model y = x + w0 or x + w1, whose weights lie in its branches."""
    branches = {}
    for number, name in enumerate(("else_branch", "then_branch")):
        weights = numpy_helper.from_array(np.full(500, number, "f4"), f"w{number}")
        out = helper.make_tensor_value_info(f"o{number}", TensorProto.FLOAT, [500])
        add = helper.make_node("Add", ["x", f"w{number}"], [f"o{number}"])
        branches[name] = helper.make_graph([add], name, [], [out], [weights])
    ins = [
        helper.make_tensor_value_info(*one) for one in (("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [500]))
    ]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [500])]
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "choosing", ins, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_a_model_with_weights_in_its_branches_answers_as_before(roundtrip: Roundtrip) -> None:
    back = roundtrip(session_on(choosing()))
    for number in (0, 1):
        (y,) = back.run(None, {"c": np.array(bool(number)), "x": np.ones(500, "f4")})
        assert y.tolist() == [number + 1.0] * 500


@pytest.mark.parametrize("level", [ALL, OFF])
def test_a_place_may_be_spelt_in_any_way(tmp_path: Path, level: object) -> None:
    home = tmp_path / "model"
    (home / "data").mkdir(parents=True)
    (home / "data" / "w.bin").write_bytes(WEIGHTS.tobytes())
    (home / "adder.onnx").write_bytes(adder(tensor("w", 4, location="./data//w.bin"), 4))
    snapshot.freeze(session_on(home / "adder.onnx", graph_optimization_level=level), tmp_path / "s")
    assert answer(snapshot.thaw(tmp_path / "s").state) == [1.0, 2.0, 3.0, 4.0]


def test_a_model_that_onnxruntime_writes_and_cannot_read_is_kept_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, opening = session_on(INLINE), onnxruntime.InferenceSession.__init__

    def spoil(self: object, source: object, options: onnxruntime.SessionOptions, **others: object) -> None:
        opening(self, source, options, **others)
        if options.optimized_model_filepath:
            Path(options.optimized_model_filepath).write_bytes(INLINE[:-3])

    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime.InferenceSession, "__init__", spoil)
        snapshot.freeze(session, tmp_path / "s")
    assert answer(snapshot.thaw(tmp_path / "s").state) == [1.0, 2.0, 3.0, 4.0]


def test_what_handlers_keep_beside_a_session_comes_back(roundtrip: Roundtrip) -> None:
    session, options = session_on(INLINE), onnxruntime.SessionOptions()
    options.inter_op_num_threads = 3
    options.add_session_config_entry("session.disable_prepacking", "1")
    kept = {"in": session.get_inputs(), "out": session.get_outputs(), "options": options, "session": session}
    back = roundtrip(kept)
    assert [(one.name, one.shape, one.type) for one in (*back["in"], *back["out"])] == [
        ("x", [4], "tensor(float)"),
        ("y", [4], "tensor(float)"),
    ]
    assert back["options"].inter_op_num_threads == 3
    assert back["options"].get_session_config_entry("session.disable_prepacking") == "1"
    assert answer(onnxruntime.InferenceSession(INLINE, back["options"], providers=CPU)) == answer(back["session"])
    assert [one.name for one in roundtrip(back)["in"]] == ["x"]
