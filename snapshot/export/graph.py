"""An onnxruntime session as callers want it: any inputs that fit without loss, any number of rows.

A model that was exported with a batch of fixed size answers batches of every other size too: one by one where the
size is 1, else padded with copies of the last row, and cut.
"""

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapshot.errors import InputMismatch, SizeMismatchError
from snapshot.export.inputs import Input, fit
from snapshot.mapping import map_private, opened
from snapshot.onnx_model import inputs_of_any_rank

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

_DTYPES = {
    "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "float": "float32",
    "double": "float64", "string": "object",
}  # fmt: skip

logger = logging.getLogger(__name__)


class OnnxGraph:
    """A model and its declared inputs and outputs.

    graph = OnnxGraph(onnxruntime.InferenceSession("model.onnx"))
    graph.run({"ids": [[1, 2, 3]]})["logits"]
    """

    def __init__(self, session: "onnxruntime.InferenceSession") -> None:
        self.session = session
        of_any_rank = _of_any_rank(session)
        self.inputs = {one.name: _declared(one, any_rank=one.name in of_any_rank) for one in session.get_inputs()}
        self.outputs = [one.name for one in session.get_outputs()]
        self.fixed_batch = _fixed_batch(session)
        if self.fixed_batch is not None:
            way = "one by one" if self.fixed_batch == 1 else "padded"
            logger.info("the model takes batches of %d alone: others are run %s", self.fixed_batch, way)

    def __reduce__(self) -> tuple[type["OnnxGraph"], tuple["onnxruntime.InferenceSession"]]:
        return OnnxGraph, (self.session,)

    def run(self, given: Mapping[str, Any]) -> dict[str, "np.ndarray[Any, Any]"]:
        """Answer one call: arrays, or lists, by the names of inputs, to arrays by the names of outputs.

        Raises InputMismatch when an input is unknown, missing, of another rank, or would be changed by a cast.
        """
        if unknown := [name for name in given if name not in self.inputs]:
            raise InputMismatch(unknown[0], "one of that name", f"one of: {', '.join(self.inputs)}")
        if missing := [name for name in self.inputs if name not in given]:
            raise InputMismatch(missing[0], "nothing", str(self.inputs[missing[0]]))
        fitted = {
            name: fit(declared, given[name], any_batch=self.fixed_batch is not None)
            for name, declared in self.inputs.items()
        }
        answers = self._run(fitted) if self.fixed_batch is None else self._run_in_batches(fitted, self.fixed_batch)
        return dict(zip(self.outputs, answers, strict=True))

    def _run(self, arrays: Mapping[str, "np.ndarray[Any, Any]"]) -> list["np.ndarray[Any, Any]"]:
        try:
            answers: list[np.ndarray[Any, Any]] = self.session.run(self.outputs, dict(arrays))
        except Exception as error:  # of a dozen classes, which onnxruntime makes from a table of status codes
            self._blame(arrays, error)
            raise
        return answers

    def _blame(self, arrays: Mapping[str, "np.ndarray[Any, Any]"], error: Exception) -> None:
        """Raises InputMismatch where an input may be the reason: it differs in an axis that has the same name."""
        lengths: dict[str, tuple[str, int]] = {}
        for one in self.session.get_inputs():
            for axis, length in zip(one.shape, arrays[one.name].shape, strict=False):
                first, known = lengths.setdefault(axis, (one.name, length)) if isinstance(axis, str) else ("", length)
                if known != length:
                    wanted = f"{known}, which {axis!r} is in {first!r}"
                    raise InputMismatch(one.name, f"{length} as {axis!r}", wanted) from error

    def _run_in_batches(self, arrays: Mapping[str, "np.ndarray[Any, Any]"], size: int) -> list["np.ndarray[Any, Any]"]:
        rows = {name: len(array) for name, array in arrays.items() if array.ndim}
        first, num_rows = next(iter(rows.items()))
        if odd := [name for name, found in rows.items() if found != num_rows]:
            raise InputMismatch(odd[0], f"{rows[odd[0]]} rows", f"{num_rows}, as the other inputs have")
        if num_rows == 0:
            raise InputMismatch(first, "no rows", f"one or more: the model takes batches of {size} alone")
        if num_rows == size:
            return self._run(arrays)
        parts = []
        for begin in range(0, num_rows, size):
            answers = self._run({name: _rows_of(array, begin, size) for name, array in arrays.items()})
            if any(_num_rows(answer) != size for answer in answers):
                raise InputMismatch(first, f"{num_rows} rows", f"{size}: the model does not answer row by row")
            parts.append(answers)
        return [_joined(pieces)[:num_rows] for pieces in zip(*parts, strict=True)]


def _rows_of(array: "np.ndarray[Any, Any]", begin: int, size: int) -> "np.ndarray[Any, Any]":
    """The rows from `begin` on, as many as `size`, the last one repeated; what has no rows is for all of them."""
    import numpy as np

    if not array.ndim:
        return array
    rows = array[begin : begin + size]
    return rows if len(rows) == size else np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def _num_rows(answer: Any) -> int | None:
    """The rows of an array, or of the list that onnxruntime makes of a sequence; None of what has none."""
    return len(answer) if isinstance(answer, list) or getattr(answer, "ndim", None) else None


def _joined(pieces: tuple[Any, ...]) -> Any:
    """The rows of several answers: arrays, or the lists that onnxruntime makes of sequences."""
    import numpy as np

    return [row for piece in pieces for row in piece] if isinstance(pieces[0], list) else np.concatenate(pieces)


def _declared(one: "onnxruntime.NodeArg", *, any_rank: bool) -> Input:
    inner = one.type.removeprefix("tensor(").removesuffix(")")
    if inner not in _DTYPES:
        raise InputMismatch(one.name, "an array", f"{one.type}, which arrays cannot hold")
    shape = None if any_rank else tuple(axis if isinstance(axis, int) else None for axis in one.shape)
    return Input(one.name, _DTYPES[inner], shape)


def _of_any_rank(session: "onnxruntime.InferenceSession") -> frozenset[str]:
    """The inputs whose axes the model does not tell, of which onnxruntime says the same as of numbers: that they have
    none."""
    if all(one.shape for one in session.get_inputs()):
        return frozenset()
    if session._model_bytes is not None:
        return inputs_of_any_rank(memoryview(session._model_bytes))
    path = Path(session._model_path)
    with contextlib.suppress(SizeMismatchError), opened(path) as descriptor:  # it may be gone by now
        return inputs_of_any_rank(map_private(descriptor, os.fstat(descriptor).st_size, path))
    return frozenset()


def _fixed_batch(session: "onnxruntime.InferenceSession") -> int | None:
    """Return the length that axis 0 of every input must have, which a batch of another size is cut or padded to.

    None where it is free, where they differ, or where an output has always as many rows. Inputs without axes are no
    part of the batch; of outputs without axes it is not told whether they have none, or any.
    """
    firsts = {one.shape[0] for one in session.get_inputs() if one.shape}
    only = firsts.pop() if len(firsts) == 1 else None
    if not isinstance(only, int) or only <= 0:
        return None
    tensors = [one.shape for one in session.get_outputs() if one.type.startswith("tensor(")]
    is_by_rows = all(not shape or shape[0] == only or not isinstance(shape[0], int) for shape in tensors)
    return only if is_by_rows else None
