"""A module with its arguments and answers flat, as exporters want them: tensors in, tensors out. Imports torch."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from snapshot.export.inputs import Input
from snapshot.export.module import Signature
from snapshot.export.recording import Example
from snapshot.export.structure import Structure, take_apart


class Flat(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """Calls a module as its signature says, with tensors in the order of an example's."""

    def __init__(self, module: torch.nn.Module, signature: Signature, example: Example) -> None:
        super().__init__()
        self.module = module
        self.eval() if not module.training else self.train()
        self._signature = signature
        self._places = {place: number for number, place in enumerate(example.given)}

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the tensors of the module's answer."""
        given = {
            name: _put_in(structure, name, self._places, tensors) for name, structure in self._signature.given.items()
        }
        args = given.pop(self._signature.variadic, []) if self._signature.variadic is not None else []
        if args:  # what comes before *args can then be given by position alone
            args = [*(given.pop(name) for name in self._signature.parameters if name in given), *args]
        answers, _ = take_apart(self.module(*args, **given), torch.is_tensor)
        return tuple(answers)


def fit_to_trace(examples: list[Example]) -> Example:
    """Return the example to trace with: an axis of length 1 would be fixed, so one with few such axes."""
    return max(examples, key=lambda example: (_num_long_axes(example), -sum(t.numel() for t in example.given.values())))


def free_axes(example: Example) -> dict[str, tuple[dict[int, Any], ...]]:
    """Return, for the exporters, that every axis is free that the module itself leaves free."""
    free = torch.export.Dim.AUTO
    return {"tensors": tuple(dict.fromkeys(range(tensor.dim()), free) for tensor in example.given.values())}


def inputs_of(program: torch.export.ExportedProgram, example: Example) -> tuple[Input, ...]:
    """Return what a program that was traced with `example` takes: it holds for the lengths that it fixed alone."""
    of_user = set(program.graph_signature.user_inputs)
    values = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in of_user]
    return tuple(
        Input(
            name,
            str(value.dtype).removeprefix("torch."),
            tuple(_fixed(length) for length in value.shape),
        )
        for name, value in zip(example.given, values, strict=True)
    )


def _fixed(length: Any) -> int | None:
    """Return the length of an axis that was fixed, from the start or while tracing; None for one that is free."""
    found: int | None = length if isinstance(length, int) else length.node.maybe_as_int()
    return found


def _num_long_axes(example: Example) -> int:
    return sum(length > 1 for tensor in example.given.values() for length in tensor.shape)


def _put_in(structure: Structure, path: str, places: dict[str, int], tensors: tuple[torch.Tensor, ...]) -> Any:
    kind, content = structure
    if kind == "array":
        return tensors[places[path]]
    if kind == "constant":
        return content
    parts: Iterator[tuple[Any, Structure]] = enumerate(content) if kind in ("list", "tuple") else iter(content.items())
    made = {key: _put_in(part, f"{path}.{key}", places, tensors) for key, part in parts}
    if kind == "list":
        return list(made.values())
    return tuple(made.values()) if kind == "tuple" else made


def why(error: Exception) -> str:
    """Return what an exporter's error comes down to: its cause, in a few lines."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {' '.join(lines[:3])}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep back what the exporter tells its own developers: a failure is told by its error."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
