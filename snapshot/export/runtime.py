"""What computes for an exported module: an optimised model in an onnxruntime session. Does without torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapshot.export.graph import OnnxGraph
from snapshot.export.inputs import Input, fit
from snapshot.reducers import threads_for

if TYPE_CHECKING:
    import onnxruntime


class GraphBackend:
    """An ONNX model whose inputs are named by the paths of a call's arrays.

    `inputs` are those of the program that it was made from, which holds for the lengths that it fixed alone; the model
    has only those of them that it looks at.
    """

    def __init__(self, session: "onnxruntime.InferenceSession", inputs: tuple[Input, ...]) -> None:
        self.graph = OnnxGraph(session)
        self._inputs = inputs

    def __call__(self, given: Mapping[str, Any]) -> list[Any]:
        """Answer one call."""
        any_batch = self.graph.fixed_batch is not None
        fitted = {one.name: fit(one, given[one.name], any_batch=any_batch) for one in self._inputs}
        looked_at = {name: array for name, array in fitted.items() if name in self.graph.inputs}
        return list(self.graph.run(looked_at).values())

    def __reduce__(self) -> tuple[type["GraphBackend"], tuple["onnxruntime.InferenceSession", tuple[Input, ...]]]:
        return GraphBackend, (self.graph.session, self._inputs)


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
