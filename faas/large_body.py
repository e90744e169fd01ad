"""A large JSON body as the arguments of a call: read and converted piece by piece, so that others are hardly held up.

What comes of it is what `Signature.decode` makes of it, errors too: where something does not fit, that one is asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args, get_origin

from faas import arrays, codec, large_json, large_memory
from faas.errors import SchemaMismatch
from faas.schema import Signature

_SCALARS: Final = (float, int, str, bool)


def decode(signature: Signature, held: list[bytes]) -> dict[str, Any]:
    """Turn the JSON body that is held into keyword arguments for one item, on a thread of its own, and let go of it.

    Raises:
        MalformedBody: not JSON.
        SchemaMismatch: JSON, but not what the signature says; names the field.
    """
    arguments = _decoded(signature, held[0])
    large_memory.let_go(held)
    return arguments


def _decoded(signature: Signature, body: bytes) -> dict[str, Any]:
    found = large_json.read(body)
    if found is large_json.NOT_SO:
        return signature.decode(body)
    try:
        signature.check(found)
        return _arguments(signature, found)
    except SchemaMismatch:
        return signature.decode(body)


def _arguments(signature: Signature, value: Any) -> dict[str, Any]:
    parameters = signature.parameters
    if len(parameters) == 1 and (parameters[0].is_object or not isinstance(value, dict)):
        return {parameters[0].name: _converted(value, parameters[0].type)}
    names = {p.name for p in parameters}
    if not isinstance(value, dict) or value.keys() - names or {p.name for p in parameters if p.required} - value.keys():
        raise SchemaMismatch("other fields than the signature has", "$")
    given = {p.name: _converted(value[p.name], p.type) for p in parameters if p.name in value}
    return {p.name: given[p.name] if p.name in given else p.made_default() for p in parameters}


def _converted(value: Any, kind: Any) -> Any:
    """Return a value as a type has it. Long lists are changed, or emptied, on the way."""
    if kind is Any:
        return value
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(value, list) and len(value) > 1:
        if arrays.is_array_type(kind):
            return _array(kind, value)
        if origin in (list, Sequence) and args:
            return _list(value, args[0])
    if isinstance(value, dict) and origin is dict and args[0] is str:
        return {key: _converted(held, args[1]) for key, held in value.items()}
    return codec.convert(value, kind)


def _list(values: list[Any], of: Any) -> list[Any]:
    if of is Any:
        return values
    for run in _runs(values, of):
        alone = run.stop - run.start == 1
        values[run] = [_converted(values[run.start], of)] if alone else codec.convert(values[run], list[of])
        time.sleep(large_memory.PAUSE_S)
    return values


def _runs(values: list[Any], of: Any) -> Iterator[slice]:
    """Yield pieces of a list that hold about `NUM_TOGETHER` values, what is in its elements counted."""
    most = large_memory.NUM_TOGETHER
    if of in _SCALARS:
        for begin in range(0, len(values), most):
            yield slice(begin, min(begin + most, len(values)))
        return
    begin = weight = 0
    for at, value in enumerate(values):
        one = _weight(value)
        if at > begin and weight + one > most:
            yield slice(begin, at)
            begin, weight = at, 0
        weight += one
    yield slice(begin, len(values))


def _weight(value: Any) -> int:
    """Return how many values there are in one."""
    if isinstance(value, dict):
        return 1 + sum(map(_weight, value.values()))
    if not isinstance(value, list) or not value:
        return 1
    return 1 + sum(map(_weight, value)) if isinstance(value[0], list | dict) else len(value)


def _array(kind: Any, values: list[Any]) -> Any:
    """Return the array that a list stands for. Pieces of it are taken from behind, so that they are freed on the way.

    Joined pieces have the element type that NumPy would find for the whole, where none holds integers beyond int64.
    """
    import numpy as np  # the user's module has it already

    pieces = []
    num = max(1, large_memory.NUM_TOGETHER // _weight(values[0]))
    try:
        while values:
            pieces.append(np.asarray(values[-num:]))
            del values[-num:]
            if pieces[-1].dtype not in (np.bool_, np.int64, np.float64):
                raise ValueError
            time.sleep(large_memory.PAUSE_S)
        return arrays.fitted(kind, np.concatenate(pieces[::-1]))
    except ValueError:
        raise SchemaMismatch("no such array", "$") from None
