"""What a handler returned or raised, as the outcome of each item.

`settle`, `advance` and `end` touch calls, so they belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import msgspec

from faas.errors import BadInput, FaasError, HandlerError, named, said
from faas.messages import END, Call, num_items

_NO_SEQUENCES = (str, bytes, bytearray, memoryview, Mapping, Set)
_PEP_479 = "coroutine raised StopIteration"


class Raised(msgspec.Struct, frozen=True):
    """In a slot: the item failed with an error that was raised, or made here; not one that the handler put there."""

    error: BaseException


class Attempt(msgspec.Struct):
    """One run of the handler and the values of its `calls`, in order; of a stream, one step of it."""

    calls: Sequence[Call]
    values: Sequence[Any]
    started_at: float
    ended_at: float


def settle(attempt: Attempt) -> None:
    """End each call with the value of its slot."""
    size = num_items(attempt.calls)
    for call, value in zip(attempt.calls, attempt.values, strict=True):
        if not call.done:
            call.started_at, call.ended_at, call.batch_size = attempt.started_at, attempt.ended_at, size
            end(call, value)


def advance(step: Attempt) -> None:
    """Hand each stream the value of its slot; END and an exception end it."""
    for call, value in zip(step.calls, step.values, strict=True):
        if call.done:
            continue
        if call.started_at == 0.0:
            call.started_at, call.batch_size = step.started_at, len(step.calls)
        if value is END:
            call.ended_at = step.ended_at
            call.finish()
        elif isinstance(value, BaseException | Raised):
            call.ended_at = step.ended_at
            end(call, value)
        else:
            call.put(value)


def end(call: Call, value: Any) -> None:
    """End a call with the value of its slot; an exception fails it."""
    if isinstance(value, Raised):
        call.fail(value.error)
    elif isinstance(value, BaseException):
        call.fail(returned_error(value))
    else:
        call.finish(value)


def slots(returned: Any, num_items: int, title: str) -> list[Any]:
    """Return the items' values out of what a batched handler returned: any sequence, array or tensor of that length.

    Raises:
        HandlerError: it is of another kind or length; says both.
    """
    if type(returned) is list and len(returned) == num_items:  # nearly always
        if num_items > 1 and hasattr(returned[0], "dtype") and _are_columns(returned, _array_type):
            raise _columns(returned, num_items, title)
        return returned
    if isinstance(returned, tuple) and _has_fields(returned):
        raise HandlerError(
            f"{title} gave {_kind(returned)}, whose {len(returned)} fields are no items, for "
            f"{_count(num_items, 'item')}; give one value for each item: list(zip(*fields))"
        )
    num = _length(returned)
    table = hasattr(returned, "columns")  # iterating over a data frame gives its columns, not its rows
    if isinstance(returned, _NO_SEQUENCES) or num is None or table or getattr(returned, "shape", None) == ():
        raise HandlerError(
            f"{title} gave {_kind(returned)} for {_count(num_items, 'item')}; "
            f"give a list or an array of {_count(num_items, 'value')}, one for each item"
        )
    if num != num_items:
        raise HandlerError(
            f"{title} gave {_count(num, 'value')} for {_count(num_items, 'item')}; "
            "give exactly one for each item, in the same order"
        )
    if type(returned) is tuple and _are_columns(returned, _column_type):
        raise _columns(returned, num_items, title)
    try:
        return list(returned)
    except Exception as error:
        raise HandlerError(f"{title} gave {_kind(returned)} whose values cannot be had: {named(error)}") from error


def returned_error(error: BaseException) -> BaseException:
    """Return what an exception in an item's slot means for the item: the usual complaints of input are BadInput."""
    if isinstance(error, ValueError | TypeError) and not isinstance(error, FaasError):
        bad = BadInput(named(error))
        bad.__cause__ = error
        return bad
    return presentable(error)


def as_raised(error: BaseException) -> BaseException:
    """Return the StopIteration that a handler raised where a coroutine turned it into a RuntimeError (PEP 479)."""
    if type(error) is RuntimeError and isinstance(error.__cause__, StopIteration) and said(error) == _PEP_479:
        return error.__cause__
    return error


def presentable(error: BaseException) -> BaseException:
    """Return `error` as one that can be raised to whoever waits, without being taken for something of their own.

    What a TaskGroup raised for one of its tasks alone is what that task did.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    what = "was cancelled from within" if isinstance(error, asyncio.CancelledError) else f"raised {named(error)}"
    wrapped = HandlerError(f"the handler {what}; that ends the call, not the server")
    wrapped.__cause__ = error
    return wrapped


def shared(error: BaseException, num_items: int, title: str) -> BaseException:
    """Return what one item of several gets when they failed together, and nobody can say whose fault it was."""
    if num_items == 1:
        return presentable(error)
    wrapped = HandlerError(f"{title} raised {type(error).__name__} for {num_items} items together: {said(error)}")
    wrapped.__cause__ = error
    return wrapped


def _length(returned: Any) -> int | None:
    """Return how many values were returned; None of what is no sequence, or will not say (a sparse matrix has rows)."""
    if not hasattr(returned, "__getitem__"):
        return None
    try:
        return len(returned)
    except Exception:
        return None


def _has_fields(values: tuple[Any, ...]) -> bool:
    """Tell whether a tuple is a record: a named one, or what torch.topk, sort and max give."""
    return hasattr(values, "_fields") or hasattr(values, "n_sequence_fields")


def _columns(values: Sequence[Any], num_items: int, title: str) -> HandlerError:
    return HandlerError(
        f"{title} gave {_kind(values)} of {len(values)} columns of unlike values for {_count(num_items, 'item')}; "
        "give one value for each item: list(zip(*columns))"
    )


def _are_columns(values: Sequence[Any], type_of: Callable[[Any], str]) -> bool:
    """Tell whether as many columns were returned as there happen to be items, and not the items' values.

    That is clear where each is as long as there are items, and they are of unlike types.
    """
    if len(values) < 2 or any(not _is_long(value, len(values)) for value in values):
        return False
    types = {type_of(value) for value in values}
    return len(types) > 1 and "NoneType" not in types


def _is_long(value: Any, num: int) -> bool:
    if type(value) is list:
        return len(value) == num
    shape: Any = getattr(value, "shape", None)
    return bool(shape and shape[0] == num and hasattr(value, "dtype"))


def _column_type(value: Any) -> str:
    """Return what the elements of a list, or of an array, are; None may stand for anything."""
    if type(value) is list:
        return "number" if isinstance(value[0], int | float) else type(value[0]).__name__
    return f"{value.dtype} of {tuple(value.shape)}"


def _array_type(value: Any) -> str:
    """Return what the elements of an array are; a list of arrays may well hold items of unlike lengths."""
    return f"{value.dtype} of {len(value.shape)} axes" if hasattr(value, "dtype") else _column_type(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
