"""A serverless framework for inference functions.

    from faas import Batching, inference_function

    @inference_function(batching=Batching(max_batch_size=32))
    class Embed:
        def setup(self): ...
        def predict(self, texts: list[str]) -> list[list[float]]: ...

Its names are imported when they are first used: the command line and an instance then pay for what they need alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faas.arrays import Array
    from faas.errors import BadInput, FaasError, RemoteError
    from faas.function import Function, endpoint, inference_function
    from faas.messages import END, Context
    from faas.spec import (
        Batching,
        Cache,
        Calls,
        Pad,
        QueuePolicy,
        RateLimit,
        Resources,
        Scaling,
        Selection,
        Sequences,
        Snapshot,
        Versions,
    )
    from faas.variants import variant
    from faas.weights import open_weights

_HOMES = {
    "arrays": ("Array",),
    "errors": ("BadInput", "FaasError", "RemoteError"),
    "function": ("Function", "endpoint", "inference_function"),
    "messages": ("END", "Context"),
    "spec": (
        *("Batching", "Cache", "Calls", "Pad", "QueuePolicy", "RateLimit", "Resources", "Scaling", "Selection"),
        *("Sequences", "Snapshot", "Versions"),
    ),
    "variants": ("variant",),
    "weights": ("open_weights",),
}
_HOME_OF = {name: f"faas.{module}" for module, names in _HOMES.items() for name in names}

__all__ = [
    "END",
    "Array",
    "BadInput",
    "Batching",
    "Cache",
    "Calls",
    "Context",
    "FaasError",
    "Function",
    "Pad",
    "QueuePolicy",
    "RateLimit",
    "RemoteError",
    "Resources",
    "Scaling",
    "Selection",
    "Sequences",
    "Snapshot",
    "Versions",
    "endpoint",
    "inference_function",
    "open_weights",
    "variant",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'faas' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
