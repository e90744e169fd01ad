"""onnxruntime sessions at rest: the model's files are kept, the session is opened again on them.

On a CPU the model is kept as onnxruntime has optimised it, in the ways that are the same on every CPU, with its larger
weights in a file of their own that onnxruntime maps. Opening it again has little left to do. What it would do for the
CPU at hand alone (the layout of convolutions) it still does when it is opened.
A session does not tell all that it was made of: custom operator libraries, initializers given in memory and overrides
of free dimensions are lost. Before it is kept it is opened again and called: one that needs the first two is refused
then, and wants a reducer of your own. Overrides of dimensions change no answer.
Onnxruntime is imported inside the functions: a graph without sessions does without it.
"""

import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from snapshot.mapping import map_private, opened
from snapshot.onnx_answers import differ
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

logger = logging.getLogger(__name__)

_LEVEL = "graph_optimization_level"
_LARGE_WEIGHT_BYTES = 1024


def reduce_session(session: "onnxruntime.InferenceSession") -> Reduced:
    """A session as its model's files, its providers and those of its options that are not the defaults."""
    import onnxruntime

    if type(session) is not onnxruntime.InferenceSession:
        raise TypeError(f"{type(session).__qualname__} is a session with changes of its own: register a reducer for it")
    model, files = _model_files(session)
    options = _changed_options(session.get_session_options())
    kept = _optimised(session, options, model)
    if kept is None:
        asked = session.get_providers()
        again = onnxruntime.InferenceSession(_source(session), _session_options(options), providers=asked)
        _check_answers(session, again)
    return open_session, (
        kept or KeptFiles(files),
        model,
        options,
        [(name, session.get_provider_options()[name]) for name in session.get_providers()],
    )


def open_session(
    folder: Path, model: str, options: dict[str, Any], providers: list[tuple[str, dict[str, str]]]
) -> "onnxruntime.InferenceSession":
    """What skeletons name to open a session again. Thread counts left at 0 are those that thawing asks for."""
    import onnxruntime

    session_options = _session_options(options)
    session_options.intra_op_num_threads = threads_for(session_options.intra_op_num_threads)
    session_options.inter_op_num_threads = threads_for(session_options.inter_op_num_threads)
    session = onnxruntime.InferenceSession(folder / model, session_options, providers=providers)
    if lacking := [name for name, _ in providers if name not in session.get_providers()]:
        here = ", ".join(session.get_providers())
        logger.warning("%s was frozen on %s, and runs on %s here: see that it is installed", model, lacking[0], here)
    return session


class NodeInfo(NamedTuple):
    """What a session tells of one of its inputs or outputs, in the place of onnxruntime's own object."""

    name: str
    shape: list[int | str | None]
    type: str


def reduce_node(node: "onnxruntime.NodeArg") -> Reduced:
    """An input or output of a session, as handlers keep them, as what it tells."""
    return NodeInfo, (node.name, node.shape, node.type)


def reduce_options(options: "onnxruntime.SessionOptions") -> Reduced:
    """The options for sessions that are yet to be opened."""
    return _session_options, (_changed_options(options),)


def _session_options(options: dict[str, Any]) -> "onnxruntime.SessionOptions":
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    for name, value in options["attributes"].items():
        setattr(session_options, name, value)
    for key, value in options["config"].items():
        session_options.add_session_config_entry(key, value)
    return session_options


def _optimised(session: "onnxruntime.InferenceSession", options: dict[str, Any], model: str) -> KeptFiles | None:
    """The model's files, optimised; None where onnxruntime cannot or should not write them."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    asked_for_less = options["attributes"].get(_LEVEL) in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_BASIC)
    if session.get_providers() != ["CPUExecutionProvider"] or asked_for_less or _is_ort_format(session):
        return None
    folder = Path(tempfile.mkdtemp(prefix="optimised-"))
    session_options = _session_options(options)
    session_options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
    session_options.optimized_model_filepath = str(folder / model)
    for key, value in (("file_name", f"{model}.data"), ("min_size_in_bytes", str(_LARGE_WEIGHT_BYTES))):
        session_options.add_session_config_entry(f"session.optimized_model_external_initializers_{key}", value)
    reading = onnxruntime.SessionOptions()
    reading.graph_optimization_level = levels.ORT_DISABLE_ALL
    reading.add_session_config_entry("session.disable_prepacking", "1")
    try:
        onnxruntime.InferenceSession(_source(session), session_options, providers=session.get_providers())
        # It writes some models so that it cannot read them, those with weights in branches and loops among them.
        again = onnxruntime.InferenceSession(folder / model, reading, providers=session.get_providers())
    except Exception:  # of any kind: what cannot be written (operators of the user's own) is kept as it is
        shutil.rmtree(folder)
        return None
    kept = KeptFiles({path.name: path for path in sorted(folder.iterdir())})
    weakref.finalize(kept, shutil.rmtree, folder, ignore_errors=True)  # once they are written
    _check_answers(session, again)
    return kept


def _check_answers(session: "onnxruntime.InferenceSession", again: "onnxruntime.InferenceSession") -> None:
    """Raises ValueError where the session, opened again on its files, answers otherwise."""
    if differ(session, again):
        raise ValueError(
            "opened again on its model's files, it answers otherwise: it was given initializers in memory, or the "
            "files have changed since it was opened"
        )


def _source(session: "onnxruntime.InferenceSession") -> Any:
    return session._model_path if session._model_bytes is None else session._model_bytes


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


def _is_ort_format(session: "onnxruntime.InferenceSession") -> bool:
    if session._model_bytes is not None:
        return is_ort_format(memoryview(session._model_bytes))
    with open(session._model_path, "rb") as file:
        return is_ort_format(memoryview(file.read(16)))


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
