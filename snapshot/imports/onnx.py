"""An ONNX model: kept as it is, with the files that hold its weights, and checked by opening it with onnxruntime."""

import os
from collections.abc import Mapping
from pathlib import Path

from snapshot.errors import DamagedError, ImportRefused, MissingShardsError
from snapshot.freeze import freeze
from snapshot.imports.incoming import listed
from snapshot.manifest import Manifest, is_inside
from snapshot.mapping import map_private, opened
from snapshot.onnx_model import external_files, is_ort_format


def import_model(path: Path, folder: Path, *, meta: Mapping[str, object]) -> Manifest:
    """Write the snapshot of a session of the model at `path`. It thaws as an InferenceSession.

    Raises ImportRefused when onnxruntime is not installed or cannot open the model, MissingShardsError when files
    with its weights are not there, DamagedError when it is no model.
    """
    _check_files(path)
    try:
        import onnxruntime  # the way of this format alone
    except ImportError as error:
        raise ImportRefused(
            f"{path} is an ONNX model, and onnxruntime is not installed", "pip install 'faas[onnx]'"
        ) from error
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # of a dozen classes, which onnxruntime makes from a table of status codes
        later = f"export the model again, or install a later onnxruntime than {onnxruntime.__version__}"
        raise ImportRefused(f"onnxruntime cannot open {path}: {error}", later) from error
    return freeze(session, folder, meta=meta)


def _check_files(path: Path) -> None:
    with opened(path) as descriptor:
        num_bytes = os.fstat(descriptor).st_size
        if not num_bytes:
            raise DamagedError(path, "is empty")
        content = map_private(descriptor, num_bytes, path)
    try:
        files = [] if is_ort_format(content) else external_files(content)
    except ValueError as error:
        raise DamagedError(path, str(error)) from error
    if outside := [file for file in files if not is_inside(file)]:
        raise DamagedError(path, f"keeps weights outside its own folder: {listed(map(repr, outside))}")
    if missing := [file for file in files if not (path.parent / file).is_file()]:
        raise MissingShardsError(
            f"{path} keeps weights in files that are missing: {listed(missing)}",
            "copy them beside the model",
            missing=missing,
        )
