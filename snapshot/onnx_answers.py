"""Whether two onnxruntime sessions answer alike, told from one made-up call.

A session does not tell all that it was made of: initializers may have been given to it in memory, and its file may hold
another model by now. What was opened again without them answers otherwise.
"""

from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnxruntime

_KINDS = {
    "tensor(float)": "<f4", "tensor(double)": "<f8", "tensor(float16)": "<f2", "tensor(bool)": "|b1",
    "tensor(int64)": "<i8", "tensor(int32)": "<i4", "tensor(int16)": "<i2", "tensor(int8)": "|i1",
    "tensor(uint8)": "|u1",
}  # fmt: skip
_MAX_ELEMENTS = 2**24
# Fused operators add in another order; weights that are others give other numbers altogether.
_RELATIVE, _ABSOLUTE = 1e-2, 1e-3


def differ(session: "onnxruntime.InferenceSession", again: "onnxruntime.InferenceSession") -> bool:
    """Whether the two are seen to answer differently; False where they cannot be called so, or draw random numbers."""
    inputs = _inputs(session)
    if inputs is None:
        return False
    try:
        answers, same, others = (one.run(None, inputs) for one in (session, session, again))
    except Exception:  # whatever a model says to values that mean nothing to it
        return False
    return _are_close(answers, same) and not _are_close(answers, others)


def _inputs(session: "onnxruntime.InferenceSession") -> dict[str, Any] | None:
    """One value for each input, every open dimension 1; None where that cannot be made."""
    import numpy as np

    made = {}
    drawn = np.random.default_rng(0)  # uneven, so that nothing cancels out
    for node in session.get_inputs():
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in node.shape]
        if node.type not in _KINDS or prod(shape) > _MAX_ELEMENTS:
            return None
        kind = np.dtype(_KINDS[node.type])
        made[node.name] = drawn.uniform(0.05, 1, shape).astype(kind) if kind.kind == "f" else np.ones(shape, kind)
    return made


def _are_close(answers: list[Any], others: list[Any]) -> bool:
    """Whether floating-point answers are the same to within what optimising changes; others may flip at a tie."""
    import numpy as np

    return all(
        one.shape == other.shape and np.allclose(one, other, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True)
        for one, other in zip(answers, others, strict=True)
        if isinstance(one, np.ndarray) and one.dtype.kind == "f"
    )
