"""Whether a stand-in answers as the module did. Imports torch."""

from collections.abc import Callable
from typing import Any

import torch

from snapshot.errors import NotExportable
from snapshot.export.recording import Call
from snapshot.export.structure import take_apart

_TOLERANCES = {torch.float16: (1e-2, 1e-2), torch.float64: (1e-6, 1e-8)}
_DEFAULT_TOLERANCE = 1e-3, 1e-4
"""Relative and absolute, as `torch.allclose` has them: other kernels add in another order."""


def compare(standin: Callable[..., Any], calls: list[Call], path: str) -> None:
    """Repeat `calls` with `standin` and compare the answers: floats within a tolerance, all else exactly.

    Raises NotExportable.
    """
    for number, call in enumerate(calls):
        wanted, _ = take_apart(call.answer, torch.is_tensor)
        try:
            answer = standin(*call.args, **call.kwargs)
        except Exception as error:
            raise NotExportable(
                path, f"exported, it does not take call {number} of the examples: {type(error).__name__}: {error}"
            ) from error
        found, _ = take_apart(answer, _is_tensor)
        if len(found) != len(wanted):
            raise NotExportable(path, f"exported, it returns {len(found)} tensors, and returned {len(wanted)}")
        for ours, theirs in zip(found, wanted, strict=True):
            _compare(torch.as_tensor(getattr(ours, "real", ours) if not torch.is_tensor(ours) else ours), theirs, path)


def _compare(found: torch.Tensor, wanted: torch.Tensor, path: str) -> None:
    wanted = wanted.detach().cpu()
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        raise NotExportable(
            path,
            f"exported, it returns {found.dtype} of {tuple(found.shape)}; it returned {wanted.dtype} of "
            f"{tuple(wanted.shape)}",
        )
    if not wanted.dtype.is_floating_point:
        if not torch.equal(found, wanted):
            raise NotExportable(path, "exported, it answers the examples differently")
        return
    relative, absolute = _TOLERANCES.get(wanted.dtype, _DEFAULT_TOLERANCE)
    if not torch.allclose(found, wanted, rtol=relative, atol=absolute, equal_nan=True):
        worst = (found - wanted).abs().max().item()
        raise NotExportable(path, f"exported, it answers the examples differently, by {worst:.2g}")


def _is_tensor(value: Any) -> bool:
    return torch.is_tensor(value) or hasattr(value, "__torch_function__")
