"""A torch module exported to ONNX, optimised, and checked against what it answered itself. Imports torch."""

from pathlib import Path

import torch

from snapshot.errors import NotExportable
from snapshot.export.checking import compare
from snapshot.export.flat import Flat, fit_to_trace, free_axes, inputs_of, quiet, why
from snapshot.export.module import ExportedModule
from snapshot.export.recording import Call, Example, examples_of
from snapshot.export.runtime import GraphBackend, open_optimised

MODEL_FILE, WEIGHTS_FILE = "model.onnx", "weights.bin"
_MIN_EXTERNAL_BYTES = 1024
"""Smaller tensors stay in the model's own file, where onnxruntime may fold them."""


def export_module(
    module: torch.nn.Module, calls: list[Call], path: str, folder: Path
) -> tuple[ExportedModule, dict[str, str]]:
    """Export `module`, which was called as `calls` say and is at `path` of the state, into the new folder `folder`.

    Every axis that the module itself leaves free is free in the export. Returns the stand-in, which has answered each
    of `calls` as the module did (see `checking`), and its inputs in words.
    Raises NotExportable.
    """
    if module.training:
        raise NotExportable(path, "it is in training mode: call .eval() in setup()")
    signature, examples = examples_of(module, calls, path)
    for needed in ("onnx", "onnxscript", "onnxruntime"):
        _import(needed, path)
    folder.mkdir(parents=True)
    traced = fit_to_trace(examples)
    program = _program(Flat(module, signature, traced), examples, traced, path)
    try:
        _write(program, traced, folder)
    except Exception as error:
        raise NotExportable(path, f"torch cannot export it: {why(error)}") from error
    inputs = inputs_of(program, traced)
    stand_in = ExportedModule(GraphBackend(open_optimised(folder / MODEL_FILE), inputs), signature)
    compare(stand_in, calls, path)
    return stand_in, {declared.name: str(declared) for declared in inputs}


def _import(name: str, path: str) -> None:
    try:
        __import__(name)
    except ImportError:
        raise NotExportable(path, f"the package {name!r} is not installed; pip install 'faas[export]'") from None


def _program(flat: Flat, examples: list[Example], traced: Example, path: str) -> torch.export.ExportedProgram:
    """Trace with every axis free, or, where torch cannot and the examples all have one shape, with that shape."""
    shapes = {tuple(tensor.shape for tensor in example.given.values()) for example in examples}
    tensors = tuple(traced.given.values())
    for axes in (free_axes(traced), None):
        try:
            with quiet(), torch.no_grad():
                return torch.export.export(flat, tensors, dynamic_shapes=axes)
        except Exception as error:
            if axes is None or len(shapes) > 1:
                raise NotExportable(path, f"torch cannot export it: {why(error)}") from error
    raise AssertionError("one of the two returns or raises")


def _write(program: torch.export.ExportedProgram, traced: Example, folder: Path) -> None:
    """Write a program to `folder` as ONNX, optimised.

    Onnxruntime optimises it once, and what it made is kept, its weights in a file that can be mapped. Of its levels, it
    is the highest that does not depend on the processor it runs on.
    """
    import onnxruntime

    exported = folder / "exported.onnx"
    with quiet(), torch.no_grad():
        torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(traced.given),
            output_names=[f"answer.{number}" for number in range(len(traced.answers))],
            external_data=True,
            verbose=False,
        ).save(str(exported), external_data=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / MODEL_FILE)
    options.log_severity_level = 3
    for key, value in (("file_name", WEIGHTS_FILE), ("min_size_in_bytes", str(_MIN_EXTERNAL_BYTES))):
        options.add_session_config_entry(f"session.optimized_model_external_initializers_{key}", value)
    onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])
    for file in folder.glob(f"{exported.name}*"):
        file.unlink()
