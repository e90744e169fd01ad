"""Variants: methods of one class that answer the same call, of which a policy chooses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, overload

import msgspec

from faas import arrays, codec
from faas.errors import FaasError, SettingError
from faas.hints import Kind
from faas.schema import Signature

if TYPE_CHECKING:
    from faas.spec import FunctionSpec, Selection

PREDICT: Final = "predict"
"""The method that answers in a class without variants."""

_MARK: Final = "__faas_variant__"


class Variant(msgspec.Struct, frozen=True):
    """One way to answer: `name` and `kind` of its method, and `accuracy`, the share of its answers that are right."""

    name: str
    accuracy: float | None
    kind: Kind = "plain"


_Method = Callable[..., Any]


@overload
def variant(method: _Method, /) -> _Method: ...
@overload
def variant(*, accuracy: float | None = None) -> Callable[[_Method], _Method]: ...
def variant(method: Any = None, /, *, accuracy: float | None = None) -> Any:
    """Make a method of a decorated class one of the variants of its answer. They take the place of `predict`.

    Bare, or with the share of its answers that are right.

    Raises:
        SettingError: `accuracy` is no share.
    """
    whole = isinstance(accuracy, int | float) and not isinstance(accuracy, bool)
    if accuracy is not None and not (whole and 0 <= accuracy <= 1):
        raise SettingError(f"variant(accuracy={accuracy!r}): must be from 0 to 1, the share of right answers")

    def mark(method: _Method) -> _Method:
        setattr(method, _MARK, Variant(getattr(method, "__name__", ""), accuracy))
        return method

    return mark if method is None else mark(method)


def found_in(user: type, methods: Mapping[str, Callable[..., Any]], public: Container[str]) -> dict[str, Variant]:
    """Return the variants among a class's methods, the most accurate first, then as they are defined.

    Raises:
        SettingError: there is something else that answers in their place: `public` are methods with paths of their own.
    """
    found = {}
    for name in methods:
        method = inspect.getattr_static(user, name)
        mark = getattr(method, _MARK, None) or getattr(getattr(method, "__func__", None), _MARK, None)
        if mark is not None:
            found[name] = Variant(name, mark.accuracy)
    for name in found:
        if name in public:
            raise SettingError(
                f"class {user.__name__}: {name} is a variant and has a path of its own; take one of the two"
            )
    if found and PREDICT in methods:
        raise SettingError(
            f"class {user.__name__}: its variants ({', '.join(found)}) take the place of predict; drop it"
        )
    order = [name for kind in reversed(user.__mro__) for name in vars(kind)]
    return dict(sorted(found.items(), key=lambda held: (-(held[1].accuracy or 0.0), order.index(held[0]))))


def check(spec: FunctionSpec, title: str, variants: Sequence[Variant], signature: Signature) -> None:
    """Refuse what contradicts: settings without variants, variants without settings, settings of no use to them.

    `signature` is the one that the variants have.

    Raises:
        SettingError: says which, and what to do.
    """
    selection, names = spec.selection, ", ".join(held.name for held in variants)
    if selection is None:
        if variants:
            raise SettingError(
                f'{title} has variants ({names}): say which one answers, as selection=Selection(policy="slack")'
            )
        return
    if len(variants) < 2:
        has = f"only {names}" if variants else "none"
        raise SettingError(
            f"{title}: selection= chooses among variants, and there is {has}; mark methods with @variant"
        )
    if spec.batching is not None and spec.batching.sequences is not None:
        raise SettingError(f"{title}: the calls of a sequence belong to one variant; drop selection or sequences")
    if spec.batching is not None and spec.batching.preserve_order:
        raise SettingError(f"{title}: a fast variant overtakes a slow one; drop selection or preserve_order")
    if selection.policy == "slack":
        _check_slack(spec, selection, title, variants)
    elif signature.streams and (selection.policy == "exp4" or selection.has_default):
        raise SettingError(
            f"{title}: its variants stream, and exp4, or a default, is for answers in one piece; return them whole"
        )
    if selection.has_default:
        _check_default(selection, title, signature)


def check_alike(title: str, signatures: Mapping[str, Signature]) -> None:
    """Refuse variants that callers could tell apart. One may be an `async def` and another not.

    Raises:
        SettingError: names two.
    """
    (name, first), *others = signatures.items()
    for other, signature in others:
        if _form(signature) != _form(first):
            raise SettingError(f"{title}: the variants {name} and {other} answer one call, so write one signature")


def _form(signature: Signature) -> object:
    """Return what callers can tell of a signature. Types of arrays are made anew for each signature."""
    parameters = [(p.name, _type(p.type), p.required, repr(p.default), p.library) for p in signature.parameters]
    return parameters, _type(signature.returns), signature.streams, signature.context


def _type(kind: Any) -> object:
    if arrays.is_array_type(kind):
        return kind.library, kind.array
    origin = get_origin(kind)
    return kind if origin is None else (origin, [_type(each) for each in get_args(kind)])


def _check_slack(spec: FunctionSpec, selection: Selection, title: str, variants: Sequence[Variant]) -> None:
    unknown = [held.name for held in variants if held.accuracy is None]
    if unknown:
        raise SettingError(
            f"{title}: slack takes the most accurate variant; write @variant(accuracy=...) at {unknown[0]}"
        )
    if spec.batching is None or spec.batching.slo_ms is None:
        raise SettingError(
            f"{title}: slack is what is left of the time promised, and there is no promise; "
            "set batching=Batching(slo_ms=...)"
        )
    if spec.batching.buckets:
        raise SettingError(f"{title}: slack looks at one queue, and each bucket has its own; drop selection or buckets")
    best = max(held.accuracy or 0.0 for held in variants)
    if best < selection.accuracy_floor:
        raise SettingError(
            f"{title}: no variant reaches accuracy_floor={selection.accuracy_floor:g}; the best has accuracy={best:g}"
        )


def _check_default(selection: Selection, title: str, signature: Signature) -> None:
    try:
        signature.answer(codec.encode(selection.default))
    except FaasError as error:
        raise SettingError(f"{title}: default={selection.default!r} is no answer of its variants: {error}") from None
