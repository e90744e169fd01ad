"""Tensors that `torch.save` wrote (.pt, .pth, .bin, .ckpt), read without running code of the file.

The file is mapped where its form allows, so that tensors come into memory one by one, as they are written.
"""

import codecs
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapshot import tensors
from snapshot.errors import ImportRefused, UnsupportedDtypeError
from snapshot.imports.incoming import Incoming, Model, in_memory, listed

if TYPE_CHECKING:
    import torch

# What torch's errors say, of which only parts are for those who did not choose to call it.
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
_REASON = re.compile(r"WeightsUnpickler error:\s*([^\n]+)")
_SAVE_WEIGHTS = "save the weights alone, torch.save(model.state_dict(), FILE), and import that"


def read_file(path: Path, *, key: str | None = None) -> Model:
    """The tensors of a file by their dotted names; of the part `key` alone, where it is given.

    Raises ImportRefused when the file needs code of its own, when torch cannot read it or is not installed, and when
    it holds no tensors, or two of one name.
    """
    content = _load(path)
    if key is not None:
        content = _part(path, content, key)
    named, others = _flatten(path, content)
    if not named:
        raise ImportRefused(f"{path} holds no tensors by name, but a {type(content).__name__}", _SAVE_WEIGHTS)
    owners: dict[tuple[object, ...], str] = {}
    incoming: list[Incoming] = []
    aliases: dict[str, str] = {}
    for name, tensor in named.items():
        owner = owners.setdefault(_place(tensor), name)
        if owner != name:
            aliases[name] = owner
        else:
            incoming.append(_incoming(path, name, tensor))
    return Model(tuple(incoming), aliases, notes=tuple(_notes(named, others, key)))


def _load(path: Path) -> Any:
    try:
        import torch  # the way of this format alone
    except ImportError as error:
        raise ImportRefused(
            f"{path} is a file of torch, which is not installed", "pip install 'faas[torch]'"
        ) from error
    try:
        with torch.serialization.safe_globals([*_plain_values()]):
            try:
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError as error:
                if "mmap" not in str(error):  # what torch says of files of its older form, which must be read at once
                    raise
                return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _needs_code(path, error) from error
    except (RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        if "TorchScript" in str(error):
            raise ImportRefused(f"{path} is a TorchScript program, not weights", _SAVE_WEIGHTS) from error
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ImportRefused(f"torch cannot read {path}: {reason}", "save or download it again") from error


def _plain_values() -> Iterator[Any]:
    """What checkpoints hold beside tensors, which is made without running anything: numpy's values, parsed arguments.

    Each with the name that files call it by: numpy 2 has renamed its modules.
    """
    import argparse  # these, too, are loaded by torch

    yield argparse.Namespace
    try:
        import numpy as np
    except ImportError:
        return
    from numpy._core import multiarray

    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        yield from ((getattr(multiarray, name), f"{module}.{name}") for name in ("scalar", "_reconstruct"))
    yield from (np.dtype, np.ndarray, codecs.encode)
    yield from {type(np.dtype(code)) for code in np.typecodes["All"] if code != "O"}


def _needs_code(path: Path, error: pickle.UnpicklingError) -> ImportRefused:
    if found := _GLOBAL.search(str(error)):
        problem = f"{path} needs {found[1]} to be run, and an import runs no code of a file"
        return ImportRefused(problem, f"where it is trusted: {_SAVE_WEIGHTS}")
    found = _REASON.search(str(error))
    reason = found[1] if found else str(error).partition("\n")[0]
    return ImportRefused(f"{path} is no file of weights alone: {reason}", _SAVE_WEIGHTS)


def _part(path: Path, content: Any, key: str) -> Any:
    """The part that a dotted key names; each step may hold dots itself."""
    part, rest = content, key
    while rest:
        steps = [name for name in part if isinstance(name, str)] if isinstance(part, Mapping) else []
        fitting = [name for name in steps if rest == name or rest.startswith(f"{name}.")]
        if not fitting:
            raise ImportRefused(f"{path} has no part {key!r}", f"it has: {listed(steps) or 'no named parts'}")
        step = max(fitting, key=len)
        part, rest = part[step], rest[len(step) + 1 :]
    return part


def _flatten(path: Path, content: Any) -> tuple[dict[str, "torch.Tensor"], list[str]]:
    """Tensors by dotted name, in the order of the file, and the names of what is no tensor."""
    named: dict[str, torch.Tensor] = {}
    others: list[str] = []
    for name, leaf in _leaves(content, ""):
        if not _is_tensor(leaf):
            others.append(name)
        elif name in named:
            raise ImportRefused(f"{path} holds two tensors that are called {name!r}", "choose a part of it with --key")
        else:
            named[name] = leaf
    return named, others


def _leaves(one: Any, name: str) -> Iterator[tuple[str, Any]]:
    prefix = f"{name}." if name else ""
    if isinstance(one, Mapping):
        for key, value in one.items():
            yield from _leaves(value, f"{prefix}{key}")
    elif isinstance(one, list | tuple) and any(_is_tensor(part) or isinstance(part, Mapping) for part in one):
        for index, value in enumerate(one):
            yield from _leaves(value, f"{prefix}{index}")
    else:
        yield name, one


def _is_tensor(one: object) -> bool:
    import torch  # loaded by now

    return isinstance(one, torch.Tensor)


def _place(tensor: "torch.Tensor") -> tuple[object, ...]:
    """Equal for two tensors when they are the same elements of the same memory."""
    if not tensor.numel() or tensor.layout is not _strided():
        return (id(tensor),)
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_neg(), tensor.is_conj()


def _strided() -> "torch.layout":
    import torch  # loaded by now

    return torch.strided


def _incoming(path: Path, name: str, tensor: "torch.Tensor") -> Incoming:
    if tensor.layout is not _strided() or tensor.is_quantized or tensor.device.type != "cpu":
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        kind = "without values, on the meta device" if tensor.device.type == "meta" else kind
        raise ImportRefused(
            f"{path}: tensor {name!r} is {kind}, and only plain tensors are imported",
            "convert it before it is saved, or freeze the module that holds it: faas snapshot create",
        )
    stored = tensors.stored_dtype(tensor.dtype)
    if stored is None:
        raise UnsupportedDtypeError(f"{path}: tensor {name!r} is {tensor.dtype}, which safetensors cannot express")

    def pieces() -> Iterator[memoryview]:
        return in_memory(tensors.c_order_bytes(tensor.resolve_conj().resolve_neg()))

    return Incoming(name, stored, tuple(tensor.shape), pieces)


def _notes(named: Mapping[str, object], others: list[str], key: str | None) -> Iterator[str]:
    if others:
        yield f"left out, since they are no tensors: {listed(others)}"
    parts = {name.partition(".")[0] for name in named}
    containers = parts & {"state_dict", "model", "model_state_dict", "module", "ema", "optimizer", "net", "weights"}
    if key is None and containers:
        yield f"names begin with the part they come from ({listed(parts)}): --key {min(containers)} takes it alone"
