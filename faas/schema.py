"""A signature as a schema: what a body must be, what the handler is called with, how its answer is written.

`Signature.of` reads the annotations once, when the function is decorated. JSON is strict both ways: NaN and infinities
in a body are refused, and are written as null; a lone surrogate is written as U+FFFD.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args, get_origin

import msgspec

from faas import arrays, codec, hints, names, strict
from faas.arrays import Array
from faas.errors import SchemaMismatch, SettingError
from faas.hints import Kind
from faas.messages import Context
from faas.spec import Pad


@dataclass(frozen=True)
class Parameter:
    """One body parameter. `type` is what one caller sends; `library` names the arrays a batch is stacked into."""

    name: str
    type: Any
    required: bool
    default: Any = None
    raw: bool = False
    library: str | None = None

    @cached_property
    def is_object(self) -> bool:
        """Whether a JSON object is this parameter's own value."""
        return hints.is_object(self.type)


@dataclass(frozen=True)
class Signature:
    """The schema of one endpoint.

    `context` is the name of the parameter that receives the call's `Context` (a list of them in a batched function).
    `told` are the parameters that are told of padding, with the library of their arrays, None for lists.
    `returns` is the type of one caller's answer, or of one event where the handler streams.
    """

    parameters: tuple[Parameter, ...]
    returns: Any
    kind: Kind
    batched: bool
    context: str | None = None
    told: Mapping[str, str | None] = field(default_factory=dict)
    _body: Any = field(default=None, repr=False, compare=False)
    _check: strict.Check | None = field(default=None, repr=False, compare=False)
    _bare: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        batched: bool,
        rows: bool = False,
        pad: Pad | None = None,
        example: Any = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Signature:
        """Read the signature of `fn` (bound, or a plain function).

        With `rows` a caller sends several rows of what a batched function takes; with `pad` items may differ in length.
        `example` is one caller's input, which gives bare arrays their element type and shape; `scope` holds names that
        the annotations may use beside the module's.

        Raises:
            SettingError: an annotation cannot be read, or does not suit a batched function.
        """
        return _read(fn, _Reading(batched, rows, pad, example), scope or {})

    @property
    def streams(self) -> bool:
        """Whether an answer is a stream of events."""
        return self.kind in ("generator", "async_generator")

    @property
    def raw(self) -> Parameter | None:
        """The parameter that takes the body's bytes as they are, if that is the only one."""
        return self.parameters[0] if len(self.parameters) == 1 and self.parameters[0].raw else None

    @property
    def fields(self) -> dict[str, Any]:
        """The names that a body object may hold, with their types; empty where it may hold any."""
        if len(self.parameters) == 1 and self.parameters[0].is_object:
            return strict.fields_of(self.parameters[0].type) or {}
        return {p.name: p.type for p in self.parameters}

    def decode(self, body: bytes) -> dict[str, Any]:
        """Turn a JSON body into keyword arguments for one item.

        Raises:
            MalformedBody: not JSON.
            SchemaMismatch: JSON, but not what the signature says; names the field.
        """
        if self._check is not None:
            return self.convert(codec.decode_value(body))
        bare = self._bare is not None and body.lstrip()[:1] != b"{"
        if not self.parameters and not body.strip():
            return {}
        found = codec.decode(body, self._bare if bare else self._body)
        return self._kwargs(found, bare)

    def decode_large(self, body: bytes) -> dict[str, Any]:
        """Do as `decode` does, on a thread of its own; where long strings make the body large, others hardly notice."""
        from faas import long_strings  # nothing to most functions

        found = long_strings.read(body)
        return self.decode(body) if found is long_strings.NOT_SO else self.convert(found)

    def convert(self, value: Any) -> dict[str, Any]:
        """Turn what a JSON body decodes to into keyword arguments for one item.

        Raises:
            SchemaMismatch: not what the signature says; names the field.
        """
        if self._check is not None:
            self._check(value, "$")
        bare = self._bare is not None and not isinstance(value, dict)
        return self._kwargs(codec.convert(value, (self._bare if bare else self._body).type), bare)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Turn a call in Python, of one item, into keyword arguments.

        Raises:
            TypeError: too many, missing or unknown arguments.
        """
        known = [p.name for p in self.parameters]
        if len(args) > len(known):
            raise TypeError(f"takes {len(known)} arguments ({', '.join(known)}), {len(args)} were given")
        bound = dict(zip(known, args, strict=False))
        for name, value in kwargs.items():
            if name not in known:
                raise TypeError(f"has no parameter {name!r}{names.suggestion(name, known)}")
            if name in bound:
                raise TypeError(f"got {name!r} twice")
            bound[name] = value
        for parameter in self.parameters:
            if parameter.name not in bound:
                if parameter.required:
                    raise TypeError(f"needs {parameter.name!r}")
                bound[parameter.name] = parameter.default
        return bound

    def body_of(self, kwargs: Mapping[str, Any]) -> bytes:
        """Write keyword arguments of one item as the body that `decode` reads (raw bytes for a `raw` signature)."""
        if self.raw is not None:
            return bytes(kwargs[self.raw.name])
        if len(self.parameters) == 1 and (self.parameters[0].is_object or not isinstance(kwargs[self._first], dict)):
            return codec.encode(kwargs[self._first])
        return codec.encode(dict(kwargs))

    def answer(self, body: bytes) -> Any:
        """Read one JSON answer (or event) as the type that the handler returns.

        Where a null stands for a NaN or an infinity of the handler's, the answer is what JSON says.

        Raises:
            MalformedBody: not JSON.
            SchemaMismatch: JSON of another type.
        """
        try:
            return codec.decode_value(body) if self.returns is None else codec.decode(body, codec.decoder(self.returns))
        except SchemaMismatch as error:
            if "Expected `float`, got `null`" in str(error):
                return codec.decode_value(body)
            raise

    def collate(self) -> dict[str, Callable[[list[Any]], Any]]:
        """Return, for each parameter that is an array, how a batch's items are stacked."""
        return {name: _stacker(library) for name, library in self.libraries().items()}

    def libraries(self) -> dict[str, str]:
        """Return the library of each parameter that is an array of a batch."""
        return {p.name: p.library for p in self.parameters if p.library is not None}

    def padded(self) -> dict[str, str | None]:
        """Return the library, None for lists, of each parameter that may be padded or is told of it."""
        found = {p.name: p.library for p in self.parameters if p.library is not None or hints.is_numbers(p.type)}
        return {**found, **self.told}

    def schemas(
        self, ref_template: str = "#/components/schemas/{name}"
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return the JSON schemas of the body and of the answer, and the components that both refer to."""
        kinds = [self._body.type, self.returns, self._bare.type if self._bare is not None else Any]
        try:
            (body, answer, bare), parts = msgspec.json.schema_components(
                kinds, schema_hook=codec.schema_hook, ref_template=ref_template
            )
        except (TypeError, NotImplementedError):
            return {}, {}, {}
        if self.raw is not None:
            body = {"type": "string", "format": "binary"}
        elif self._bare is not None:
            body = {"anyOf": [bare, body]}
        return body, answer, parts

    @property
    def _first(self) -> str:
        return self.parameters[0].name

    def _kwargs(self, found: Any, bare: bool) -> dict[str, Any]:
        if len(self.parameters) == 1 and (bare or self.parameters[0].is_object):
            return {self._first: found}
        return {p.name: getattr(found, p.name) for p in self.parameters}


@dataclass(frozen=True)
class _Reading:
    """How a signature is to be read."""

    batched: bool
    rows: bool
    pad: Pad | None
    example: Any

    @property
    def told(self) -> tuple[str, ...]:
        return self.pad.names if self.pad is not None else ()


def _read(fn: Callable[..., Any], reading: _Reading, scope: Mapping[str, Any]) -> Signature:
    found = hints.read(fn, scope)
    batched = reading.batched
    context: str | None = None
    parameters: list[Parameter] = []
    told: dict[str, str | None] = {}
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise SettingError(
                f"{hints.title(fn)}: parameter {parameter} cannot be a field of a body; name each one plainly"
            )
        hint = found.get(parameter.name, Any)
        if parameter.name in reading.told:
            told[parameter.name] = hints.library_of(hint)
            continue
        if hint is Context or (get_origin(hint) is list and get_args(hint) == (Context,)):
            if batched != (hint is not Context):
                wanted = "list[Context]" if batched else "Context"
                raise SettingError(
                    f"{hints.title(fn)}: annotate {parameter.name} as {wanted}, one for each item of a call"
                )
            context = parameter.name
            continue
        parameters.append(_parameter(fn, parameter, hint, reading))
    parameters = [_with_example(p, reading, single=len(parameters) == 1) for p in parameters]
    kind = hints.kind_of(fn)
    returns = hints.return_type(found.get("return", Any), kind, batched, rows=reading.rows)
    signature = Signature(tuple(parameters), returns, kind, batched, context, told)
    if reading.pad is not None:
        _check_padding(signature, reading.pad, hints.title(fn))
    return _compiled(signature, hints.title(fn))


def _check_padding(signature: Signature, pad: Pad, title: str) -> None:
    known = [p.name for p in signature.parameters] + list(signature.told)
    for field_name in ("mask", "lengths"):
        name = getattr(pad, field_name)
        if name is not None and name not in signature.told:
            raise SettingError(
                f"{title}: Pad({field_name}={name!r}) names no parameter of it{names.suggestion(name, known)}; "
                f"it has: {', '.join(known)}"
            )
    if pad.collate is None and not signature.padded().keys() - signature.told.keys():
        raise SettingError(
            f"{title}: with pad= a parameter must be an array, or a list of lists of numbers (list[list[int]]); "
            f"it has: {', '.join(known)}"
        )


def _compiled(signature: Signature, name: str) -> Signature:
    """Make the decoders once; a type that they cannot read is refused here, at import."""
    parameters = signature.parameters
    single = parameters[0] if len(parameters) == 1 else None
    try:
        if single is not None and single.is_object:
            body, bare, check = codec.decoder(single.type), None, strict.checker(single.type)
        else:
            body = codec.decoder(_body_struct(parameters, name))
            bare = codec.decoder(single.type) if single is not None else None
            check = _nested_check(parameters)
    except (TypeError, NotImplementedError, NameError) as error:
        raise SettingError(f"{name}: an annotation cannot be read from JSON: {error}") from None
    object.__setattr__(signature, "_body", body)
    object.__setattr__(signature, "_bare", bare)
    object.__setattr__(signature, "_check", check)
    return signature


def _body_struct(parameters: Sequence[Parameter], name: str) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for p in parameters:
        default = msgspec.field(default_factory=_constant(p.default))
        fields.append((p.name, p.type) if p.required else (p.name, p.type, default))
    return msgspec.defstruct(f"{name.rpartition('.')[2]}_body", fields, forbid_unknown_fields=True, kw_only=True)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _nested_check(parameters: Sequence[Parameter]) -> strict.Check | None:
    """Return a check of the wrapper object, only where a parameter's own type could hold an unknown key."""
    inner = {p.name: strict.checker(p.type) for p in parameters}
    if not any(inner.values()):
        return None
    lone = next(iter(inner.values())) if len(inner) == 1 else None

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            if lone is not None:
                lone(value, path)
            return
        for key, held in value.items():
            deeper = inner.get(key)
            if deeper is not None:
                deeper(held, f"{path}.{key}")

    return check


def _parameter(fn: Callable[..., Any], parameter: inspect.Parameter, hint: Any, reading: _Reading) -> Parameter:
    batched = reading.batched
    if batched:
        item, library = hints.rows_type(hint) if reading.rows else hints.item_type(hint)
    else:
        item, library = hints.adapted(hint), hints.library_of(hint)
    if item is None:
        raise SettingError(
            f"{hints.title(fn)}: with batching= the parameter {parameter.name} receives all items of a batch: "
            f"annotate it as a list (list[{hints.type_title(hint)}]) or an array"
        )
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    return Parameter(parameter.name, item, required, default, item is bytes, library if batched else None)


def _with_example(parameter: Parameter, reading: _Reading, *, single: bool) -> Parameter:
    kind, example = parameter.type, reading.example
    if example is None or not arrays.is_array_type(kind) or kind.array is not None:
        return parameter
    held = example
    if isinstance(example, Mapping):
        held = example.get(parameter.name)
    elif not single:
        return parameter
    array = arrays.example_array(kind.library, held)
    if array is None:
        return parameter
    if array.shape and (reading.rows or reading.pad is not None):
        array = Array(array.dtype, (None, *array.shape[1:]))
    adapted = arrays.array_type(kind.library, array)
    return Parameter(parameter.name, adapted, parameter.required, parameter.default, False, parameter.library)


def _stacker(library: str) -> Callable[[list[Any]], Any]:
    return lambda items: arrays.stack(library, items)
