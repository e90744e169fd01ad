"""From one floating-point type to another, piece by piece."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from snapshot.errors import ImportRefused
from snapshot.imports.incoming import Incoming

if TYPE_CHECKING:
    import torch

# What a user asks for -> safetensors' name of it.
DTYPES: Mapping[str, str] = {
    "fp64": "F64", "fp32": "F32", "bf16": "BF16", "fp16": "F16", "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2",
}  # fmt: skip
# Those that are converted. Eight-bit floats are quantised, with scales of their own: another type would not hold them.
CONVERTIBLE = frozenset({"F64", "F32", "BF16", "F16"})

_TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}  # fmt: skip


@dataclass
class Conversions:
    """What became of the values.

    overflowed: tensor -> how many finite values the new type could not hold, and which are infinite or NaN now
    """

    overflowed: MutableMapping[str, int] = field(default_factory=dict)


def config_name(stored: str) -> str:
    """What a model's config.json calls a type."""
    return _TORCH_NAMES[stored]


def converted(tensor: Incoming, dtype: str, conversions: Conversions) -> Incoming:
    """The tensor as it is to be stored: with elements of `dtype` (safetensors' name) where they are converted at all.

    Raises ImportRefused when torch, which converts, is not installed.
    """
    if tensor.dtype == dtype or tensor.dtype not in CONVERTIBLE:
        return tensor
    target = _torch_dtype(dtype)
    source = _torch_dtype(tensor.dtype)

    def pieces() -> Iterator[memoryview]:
        for piece in tensor.pieces():
            yield _convert(piece, tensor.name, conversions, source=source, target=target)

    return Incoming(tensor.name, dtype, tensor.shape, pieces)


def _convert(
    piece: memoryview | bytes, name: str, conversions: Conversions, *, source: "torch.dtype", target: "torch.dtype"
) -> memoryview:
    import torch  # the way of conversions alone

    before = torch.frombuffer(bytearray(piece), dtype=source)
    after = before.to(target)
    lowest, highest = before.aminmax()
    # Counting takes longer than converting: only where the range, which is quickly found, says that it may be needed.
    if not -torch.finfo(target).max <= lowest <= highest <= torch.finfo(target).max:
        lost = int((before.isfinite() & ~after.to(torch.float32).isfinite()).sum())
        if lost:
            conversions.overflowed[name] = conversions.overflowed.get(name, 0) + lost
    return memoryview(after.view(torch.uint8).numpy())


def _torch_dtype(stored: str) -> "torch.dtype":
    try:
        import torch  # as above
    except ImportError as error:
        raise ImportRefused(
            f"torch converts between types, and is not installed (asked for: {stored})",
            "pip install 'faas[torch]', or import without --dtype",
        ) from error
    found: torch.dtype = getattr(torch, _TORCH_NAMES[stored])
    return found
