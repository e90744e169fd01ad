"""What stands in the place of an exported module: it is called as the module was, and answers as it did."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from snapshot.errors import InputMismatch
from snapshot.export.structure import Structure, put_together
from snapshot.export.tensor import Tensor


class Backend(Protocol):
    """Whatever computes: arrays or torch tensors by input name in, arrays or torch tensors in order out."""

    def __call__(self, given: Mapping[str, Any]) -> list[Any]:
        """Answer one call."""


@dataclass(frozen=True)
class Signature:
    """How a module is called and what it answers.

    path: where in the handler's state it is, for messages
    parameters: the names of the parameters of `forward` that can be given by position; `variadic` is that of `*args`
    defaults: those of its parameters whose defaults are plain constants
    given: the structure of the arguments, by parameter; answer: that of what it returns
    """

    path: str
    parameters: tuple[str, ...]
    variadic: str | None
    given: Mapping[str, Structure]
    answer: Structure
    defaults: Mapping[str, object] = field(default_factory=dict)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter, without those that are only the default spelt out. Raises TypeError."""
        num_named = len(self.parameters)
        if len(args) > num_named and self.variadic is None:
            raise TypeError(f"{self.path} takes {num_named} arguments by position, {len(args)} were given")
        bound = dict(zip(self.parameters, args, strict=False))
        if args[num_named:] and self.variadic is not None:
            bound[self.variadic] = list(args[num_named:])
        if twice := bound.keys() & kwargs.keys():
            raise TypeError(f"{self.path} was given {', '.join(sorted(twice))} twice")
        bound.update(kwargs)
        return {name: value for name, value in bound.items() if not self._is_default(name, value)}

    def _is_default(self, name: str, value: object) -> bool:
        if name not in self.defaults:
            return False
        default = self.defaults[name]
        return value is default or (type(value) is type(default) and value == default)


class ExportedModule:
    """A torch module in a form that is run without torch. Called with what the module was called with.

    It takes arrays, lists of numbers and torch tensors. The answer is of the structure that the module's was. Its
    tensors are torch's where a torch tensor was given; else they are `Tensor`s, which `numpy.asarray` takes as well.
    """

    training = False
    device = "cpu"

    def __init__(self, backend: Backend, signature: Signature) -> None:
        self.backend = backend
        self._signature = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer one call.

        Raises InputMismatch when an input does not fit, TypeError when it is called in another way than it was when it
        was exported.
        """
        arrays: dict[str, Any] = {}
        bound = self._signature.bind(args, kwargs)
        _match(self._signature, bound, arrays)
        torch = sys.modules.get("torch")
        is_tensor: Callable[[Any], bool] = getattr(torch, "is_tensor", lambda value: False)
        as_torch = any(is_tensor(array) for array in arrays.values())
        answers = self.backend({name: _outside_torch(array, is_tensor) for name, array in arrays.items()})
        wrap = _torch_tensor if as_torch else _tensor
        return put_together(self._signature.answer, [wrap(answer) for answer in answers])

    forward = __call__

    def eval(self) -> Self:
        """It never trains."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Only to say that it does not. Raises TypeError when it should."""
        if mode:
            raise TypeError(f"{self._signature.path} was exported and cannot be trained")
        return self

    def to(self, *args: object, **kwargs: object) -> Self:
        """It stays where it is: inputs are brought to it."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """It has no gradients."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"an exported module has no {name!r}: it can only be called; keep what predict needs of it, in setup(), "
            f"as an attribute of the handler"
        )

    def __reduce__(self) -> tuple[type["ExportedModule"], tuple[Backend, Signature]]:
        return ExportedModule, (self.backend, self._signature)


def _match(signature: Signature, bound: Mapping[str, Any], arrays: dict[str, Any]) -> None:
    """Collect the arrays of a call by their paths; the rest must be as it was at export. Raises TypeError."""
    if bound.keys() != signature.given.keys():
        raise TypeError(
            f"{signature.path} was exported to be called with {', '.join(signature.given)}; "
            f"it is called with {', '.join(bound) or 'nothing'}"
        )
    for name, structure in signature.given.items():
        _collect(signature, structure, bound[name], name, arrays)


def _collect(signature: Signature, structure: Structure, value: Any, path: str, arrays: dict[str, Any]) -> None:
    kind, content = structure
    if kind == "array":
        if value is None or isinstance(value, str | Mapping):
            raise InputMismatch(path, type(value).__name__, "an array")
        arrays[path] = value
    elif kind == "constant":
        if type(value) is not type(content) or value != content:
            raise TypeError(f"{signature.path} was exported with {path}={content!r}; it is called with {value!r}")
    elif kind in ("list", "tuple"):
        if not isinstance(value, list | tuple) or len(value) != len(content):
            raise TypeError(f"{signature.path} was exported with {len(content)} arrays in {path}")
        for number, part in enumerate(content):
            _collect(signature, part, value[number], f"{path}.{number}", arrays)
    else:
        if not isinstance(value, Mapping) or value.keys() != content.keys():
            raise TypeError(f"{signature.path} was exported with {path} of the keys {', '.join(content)}")
        for key, part in content.items():
            _collect(signature, part, value[key], f"{path}.{key}", arrays)


def _outside_torch(value: Any, is_tensor: Callable[[Any], bool]) -> Any:
    return value.detach().cpu().numpy() if is_tensor(value) else value


def _tensor(answer: Any) -> Any:
    return Tensor(answer) if hasattr(answer, "__array__") and not hasattr(answer, "__torch_function__") else answer


def _torch_tensor(answer: Any) -> Any:
    import torch  # loaded, since a tensor was given

    return torch.from_numpy(answer) if not torch.is_tensor(answer) else answer


def itself(standin: object) -> object:
    """Return what is given: what skeletons name where one object stands in for another."""
    return standin
