"""A tensor without torch: enough of one to leave a model's answer, and exact where it is not enough.

What only hands values out is done here, as torch does it. All else, arithmetic too, is done by torch itself on the
real tensor of these values, and torch is imported for it: an approximation of torch would be wrong unseen.
"""

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np

_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "pow", "rpow",
    "matmul", "rmatmul", "and", "or", "xor", "lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert", "bool",
    "setitem", "iadd", "isub", "imul", "itruediv",
)  # fmt: skip


class Tensor:
    """Values that a model answered, on the CPU. `numpy.asarray` gives them without a copy."""

    __slots__ = ("_array",)

    def __init__(self, array: "np.ndarray[Any, Any]") -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(self._array.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def real(self) -> Any:
        """The torch tensor that shares these values; torch is imported for it."""
        import torch  # the point of this class is not to

        return torch.from_numpy(self._array if self._array.flags.writeable else self._array.copy())

    def numpy(self, *, force: bool = False) -> "np.ndarray[Any, Any]":
        """The values as an array; there is nothing that would have to be forced."""
        return self._array

    def tolist(self) -> Any:
        """The values as numbers, in lists."""
        return self._array.tolist()

    def item(self) -> Any:
        """The only value as a number. Raises ValueError where there are more."""
        return self._array.item()

    def cpu(self) -> Self:
        """It is there already."""
        return self

    def detach(self) -> Self:
        """It has no gradient."""
        return self

    def dim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    def numel(self) -> int:
        """The number of values."""
        return self._array.size

    def size(self, dim: int | None = None) -> Any:
        """The length of each axis, or of one."""
        return self.shape if dim is None else self.shape[dim]

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> "Tensor":
        """The place of the greatest value, along an axis where one is given."""
        import numpy as np

        return Tensor(np.asarray(np.argmax(self._array, axis=dim, keepdims=keepdim)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "np.ndarray[Any, Any]":
        import numpy as np

        return (
            np.array(self._array, dtype=dtype, copy=copy)
            if copy
            else self._array.astype(dtype or self._array.dtype, copy=False)
        )

    def __getitem__(self, index: Any) -> Any:
        if all(
            type(one) in (int, slice, type(None), type(...)) for one in (index if type(index) is tuple else (index,))
        ):
            import numpy as np

            return Tensor(np.asarray(self._array[index]))
        return self.real[index]

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if self.ndim else format(self.item(), spec)

    def __repr__(self) -> str:
        return f"Tensor({self._array!r})"

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what is looked for by protocols is not worth an import
            raise AttributeError(name)
        return getattr(self.real, name)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let torch's own functions take one of these for a tensor."""
        return function(*_real(args), **_real(kwargs or {}))


def _real(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.real
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_real(one) for one in value)
    return {key: _real(one) for key, one in value.items()} if isinstance(value, dict) else value


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: Tensor, *others: Any) -> Any:
        return getattr(self.real, name)(*_real(others))

    return operate


for _name in _OPERATORS:
    setattr(Tensor, f"__{_name}__", _operator(f"__{_name}__"))
