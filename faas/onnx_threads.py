"""The threads of onnxruntime sessions that `setup()` opens.

Onnxruntime reads neither OMP_NUM_THREADS nor the control group: a session whose options do not say takes a thread for
each core of the machine, in each instance. Here it takes as many as the instance was given. Sessions of a snapshot have
theirs from `snapshot`.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Final

from faas.on_import import once_imported

_MODULE: Final = "onnxruntime.capi.onnxruntime_inference_collection"


def limit(num_threads: int) -> None:
    """Have sessions that are opened from here on take `num_threads`, unless their options say. Imports nothing."""
    module = sys.modules.get(_MODULE)
    if module is not None:
        _limit(module.InferenceSession, num_threads)
    else:
        once_imported(_MODULE, lambda module: _limit(module.InferenceSession, num_threads))


def _limit(kind: Any, num_threads: int) -> None:
    if hasattr(kind.__init__, "__wrapped__"):  # it is, or somebody else sees to it
        return

    @functools.wraps(kind.__init__)
    def opened(self: Any, path_or_bytes: Any, sess_options: Any = None, *args: Any, **options: Any) -> None:
        from onnxruntime import SessionOptions  # it is there by now

        given = SessionOptions() if sess_options is None else sess_options
        given.intra_op_num_threads = given.intra_op_num_threads or num_threads
        opened.__wrapped__(self, path_or_bytes, given, *args, **options)

    kind.__init__ = opened
