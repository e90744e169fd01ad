"""What computes for an exported module: an optimised model in an onnxruntime session. Does without torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapshot.export.graph import OnnxGraph
from snapshot.reducers import threads_for

if TYPE_CHECKING:
    import onnxruntime


class GraphBackend:
    """An ONNX model whose inputs are named by the paths of a call's arrays."""

    def __init__(self, session: "onnxruntime.InferenceSession") -> None:
        self.graph = OnnxGraph(session)

    def __call__(self, given: Mapping[str, Any]) -> list[Any]:
        """Answer one call. Arrays that the model does not look at were dropped when it was exported."""
        inputs = self.graph.inputs
        return list(self.graph.run({name: array for name, array in given.items() if name in inputs}).values())

    def __reduce__(self) -> tuple[type["GraphBackend"], tuple["onnxruntime.InferenceSession"]]:
        return GraphBackend, (self.graph.session,)


def open_optimised(model: Path) -> "onnxruntime.InferenceSession":
    """Open a model that has been optimised before, its weights mapped.

    Weights are not packed again for the processor: a packed copy would be each process's own, and takes longer to make
    than the first answers take without.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = threads_for(0)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
