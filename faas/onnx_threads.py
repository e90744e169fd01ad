"""The threads of onnxruntime sessions that `setup()` opens.

Onnxruntime asks neither OMP_NUM_THREADS nor the control group: a session that was not told takes a thread for each core
of the machine, in each instance. Here it takes what the instance was given, unless it was told. Sessions of a snapshot
have theirs from `snapshot`.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from typing import Any, Final

_MODULE: Final = "onnxruntime.capi.onnxruntime_inference_collection"


def limit(num_threads: int) -> None:
    """Have sessions that are opened from here on, and were not told, take `num_threads`. Imports nothing."""
    module = sys.modules.get(_MODULE)
    if module is not None:
        _limit(module.InferenceSession, num_threads)
    else:
        sys.meta_path.insert(0, _Finder(num_threads))


class _Finder:
    """Limits the class of sessions as soon as it is imported, and is gone then."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Give the module as it would be found without this, and its class limited once it is executed."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_limit(module: Any) -> None:
                execute(module)
                _limit(module.InferenceSession, self._num_threads)

            spec.loader.exec_module = execute_and_limit  # type: ignore[method-assign]
        return spec


def _limit(kind: Any, num_threads: int) -> None:
    if hasattr(kind.__init__, "__wrapped__"):  # it is, or somebody else sees to it
        return

    @functools.wraps(kind.__init__)
    def opened(self: Any, path_or_bytes: Any, sess_options: Any = None, *args: Any, **options: Any) -> None:
        from onnxruntime import SessionOptions  # it is there by now

        told = SessionOptions() if sess_options is None else sess_options
        told.intra_op_num_threads = told.intra_op_num_threads or num_threads
        opened.__wrapped__(self, path_or_bytes, told, *args, **options)

    kind.__init__ = opened
