"""onnxruntime sessions at rest: the model's files are kept, the session is opened again on them.

Known to be lost, since a session does not tell them: custom operator libraries, initializers given in memory and
overrides of free dimensions. A session that needs them fails when it is opened again; register a reducer of your own.
Onnxruntime is imported inside the functions: a graph without sessions does without it.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from snapshot.mapping import map_private, opened
from snapshot.onnx_model import external_files, is_ort_format
from snapshot.reducers import KeptFiles, Reduced, threads_for

if TYPE_CHECKING:
    import onnxruntime

_OPTIONS = (
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "execution_mode", "execution_order",
    "graph_optimization_level", "inter_op_num_threads", "intra_op_num_threads", "log_severity_level",
    "log_verbosity_level", "logid", "use_deterministic_compute",
)  # fmt: skip
# A session answers for a configuration key only when asked by name: these change what it computes or how fast.
_CONFIG_KEYS = (
    "session.load_model_format", "session.disable_prepacking", "session.set_denormal_as_zero",
    "session.intra_op.allow_spinning", "session.inter_op.allow_spinning", "session.force_spinning_stop",
    "session.intra_op_thread_affinities", "session.dynamic_block_base", "session.use_device_allocator_for_initializers",
    "session.use_env_allocators", "session.disable_quant_qdq", "session.disable_double_qdq_remover",
    "session.enable_quant_qdq_cleanup", "session.qdqisint8allowed", "session.disable_aot_function_inlining",
    "session.strict_shape_type_inference", "session.use_memory_mapped_ort_model",
    "optimization.minimal_build_optimizations", "optimization.enable_gelu_approximation",
    "optimization.disable_specified_optimizers",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)  # fmt: skip


def reduce_session(session: "onnxruntime.InferenceSession") -> Reduced:
    """A session as its model's files, its providers and those of its options that are not the defaults."""
    import onnxruntime

    if type(session) is not onnxruntime.InferenceSession:
        raise TypeError(f"{type(session).__qualname__} is a session with changes of its own: register a reducer for it")
    model, files = _model_files(session)
    return open_session, (
        KeptFiles(files),
        model,
        _changed_options(session.get_session_options()),
        [(name, session.get_provider_options()[name]) for name in session.get_providers()],
    )


def open_session(
    folder: Path, model: str, options: dict[str, Any], providers: list[tuple[str, dict[str, str]]]
) -> "onnxruntime.InferenceSession":
    """What skeletons name to open a session again. Thread counts left at 0 are those that thawing asks for."""
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    for name, value in options["attributes"].items():
        setattr(session_options, name, value)
    for key, value in options["config"].items():
        session_options.add_session_config_entry(key, value)
    session_options.intra_op_num_threads = threads_for(session_options.intra_op_num_threads)
    session_options.inter_op_num_threads = threads_for(session_options.inter_op_num_threads)
    return onnxruntime.InferenceSession(folder / model, session_options, providers=providers)


def _model_files(session: "onnxruntime.InferenceSession") -> tuple[str, dict[str, Path | bytes]]:
    """The model's name and all files it needs, by their path beside it."""
    if session._model_bytes is not None:
        content = memoryview(session._model_bytes)
        if is_ort_format(content):
            return "model.ort", {"model.ort": session._model_bytes}
        if external := external_files(content):
            raise ValueError(
                f"the model was given as bytes with weights in files ({', '.join(external)}): open it by path"
            )
        return "model.onnx", {"model.onnx": session._model_bytes}
    if session._model_path is None:
        raise ValueError("the session does not know its model's file")
    path = Path(session._model_path)
    files: dict[str, Path | bytes] = {path.name: path}
    files.update(_external(path))
    return path.name, files


def _external(model: Path) -> Iterator[tuple[str, Path]]:
    with opened(model) as descriptor:
        content = map_private(descriptor, os.fstat(descriptor).st_size, model)
    locations = [] if is_ort_format(content) else external_files(content)
    for location in locations:
        if PurePosixPath(location).is_absolute() or ".." in PurePosixPath(location).parts:
            raise ValueError(f"{model} keeps weights outside its own folder, in {location}")
        yield location, model.parent / location


def _changed_options(options: "onnxruntime.SessionOptions") -> dict[str, dict[str, Any]]:
    import onnxruntime

    default = onnxruntime.SessionOptions()
    attributes = {
        name: getattr(options, name)
        for name in _OPTIONS
        if hasattr(options, name) and getattr(options, name) != getattr(default, name)
    }
    config: dict[str, str] = {}
    for key in _CONFIG_KEYS:
        try:
            config[key] = options.get_session_config_entry(key)
        except RuntimeError:  # how onnxruntime says that the key is not set
            continue
    return {"attributes": attributes, "config": config}
