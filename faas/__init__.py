"""A serverless framework for inference functions.

from faas import Batching, inference_function

@inference_function(batching=Batching(max_batch_size=32))
class Embed:
    def setup(self): ...
    def predict(self, texts: list[str]) -> list[list[float]]: ...
"""

from faas.arrays import Array
from faas.errors import BadInput, FaasError, RemoteError
from faas.function import Function, endpoint, inference_function
from faas.messages import END, Context
from faas.spec import Batching, Calls, Resources, Scaling, Snapshot

__all__ = [
    "Array",
    "BadInput",
    "Batching",
    "Calls",
    "Context",
    "END",
    "FaasError",
    "Function",
    "RemoteError",
    "Resources",
    "Scaling",
    "Snapshot",
    "endpoint",
    "inference_function",
]
