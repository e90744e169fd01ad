"""A signature as a schema: what a body must be, what the handler is called with, how its answer is written.

`Signature.of` reads the annotations once, when the function is decorated. JSON is strict both ways: NaN and infinities
in a body are refused, and are written as null; a lone surrogate is written as U+FFFD.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin

import msgspec

from faas import arrays, codec, hints, names, strict
from faas.body_decoders import BodyDecoders
from faas.errors import SchemaMismatch, SettingError
from faas.hints import Kind
from faas.messages import Context
from faas.parameters import Parameter, Reading, parameter_of, with_example
from faas.spec import Pad


class Signature(msgspec.Struct, frozen=True, eq=False):
    """The schema of one endpoint.

    `context` is the name of the parameter that receives the call's `Context` (a list of them in a batched function).
    `pad_parameters` receive the mask and the lengths of padding: the library of their arrays, None for lists.
    `returns` is the type of one caller's answer, or of one event where the handler streams.
    """

    parameters: tuple[Parameter, ...]
    returns: Any
    kind: Kind
    batched: bool
    context: str | None = None
    pad_parameters: Mapping[str, str | None] = {}
    _body: Any = None
    _bare: Any = None
    _check: strict.Check | None = None

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
        return _read(fn, Reading(batched, rows, pad, example), scope or {})

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
        if (not body or not self.parameters) and not (body.strip() or any(p.required for p in self.parameters)):
            return {p.name: p.made_default() for p in self.parameters}
        if self._check is not None:
            return self.convert(codec.decode_value(body))
        bare = self._bare is not None and body.lstrip(codec.BEFORE)[:1] != b"{"
        found = codec.decode(body, self._bare if bare else self._body)
        return self._kwargs(found, bare)

    def check(self, value: Any) -> None:
        """Look for unknown fields at any depth of what a JSON body decodes to, and put in defaults that are left out.

        Raises:
            SchemaMismatch: there is one; names it.
        """
        if self._check is not None:
            self._check(value, "$")

    def convert(self, value: Any) -> dict[str, Any]:
        """Turn what a JSON body decodes to into keyword arguments for one item.

        Raises:
            SchemaMismatch: not what the signature says; names the field.
        """
        self.check(value)
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
                bound[parameter.name] = parameter.made_default()
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
        """Return the library, None for lists, of each parameter that may be padded, or receives a mask or lengths."""
        found = {p.name: p.library for p in self.parameters if p.library is not None or hints.is_numbers(p.type)}
        return {**found, **self.pad_parameters}

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
        from faas.nested_schemas import hoisted  # nothing to an instance that nobody asks for its schema

        own = dict(parts)
        parts |= {name: hoisted(part, parts, ref_template) for name, part in own.items()}
        body, answer, bare = (hoisted(one, parts, ref_template) for one in (body, answer, bare))
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


def _read(fn: Callable[..., Any], reading: Reading, scope: Mapping[str, Any]) -> Signature:
    found = hints.read(fn, scope)
    batched = reading.batched
    context: str | None = None
    parameters: list[Parameter] = []
    pad_parameters: dict[str, str | None] = {}
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise SettingError(
                f"{hints.title(fn)}: parameter {parameter} cannot be a field of a body; name each one plainly"
            )
        hint = found.get(parameter.name, Any)
        if parameter.name in reading.pad_names:
            pad_parameters[parameter.name] = _pad_library(
                fn, parameter.name, hint, is_mask=parameter.name == reading.pad_mask
            )
            continue
        of_context = hints.optional(hint) or hint  # with None for who calls the function without a server
        if of_context is Context or (get_origin(of_context) is list and get_args(of_context) == (Context,)):
            if batched != (of_context is not Context):
                wanted = "list[Context]" if batched else "Context"
                raise SettingError(
                    f"{hints.title(fn)}: annotate {parameter.name} as {wanted}, one for each item of a call"
                )
            context = parameter.name
            continue
        parameters.append(parameter_of(fn, parameter, hint, reading))
    parameters = [with_example(p, reading, single=len(parameters) == 1) for p in parameters]
    kind = hints.kind_of(fn, found.get("return"))
    returns = _returns(fn, found.get("return", Any), kind, reading)
    decoders = BodyDecoders.of(parameters, hints.title(fn))
    signature = Signature(tuple(parameters), returns, kind, batched, context, pad_parameters, *decoders)
    if reading.pad is not None:
        _check_padding(signature, reading.pad, hints.title(fn))
    return signature


def _returns(fn: Callable[..., Any], hint: Any, kind: Kind, reading: Reading) -> Any:
    """Return the type of one caller's answer, or of one event."""
    if reading.batched and get_origin(hint) is tuple and Ellipsis not in get_args(hint):
        given = hints.type_title(hint)
        raise SettingError(
            f"{hints.title(fn)}: with batching= it gives one value for each item, and {given} holds as many whatever "
            "the batch: give a list of tuples"
        )
    return hints.return_type(hint, kind, reading.batched, rows=reading.rows)


def _pad_library(fn: Callable[..., Any], name: str, hint: Any, *, is_mask: bool) -> str | None:
    """Return the library of the arrays in which a parameter receives a mask or lengths; None: lists."""
    item, library = hints.item_type(hint)
    if library is None and item is not Any and not (hints.is_numbers(item) if is_mask else item is int):
        given = hints.type_title(hint)
        what, suits = ("mask", "list[list[bool]]") if is_mask else ("lengths", "list[int]")
        raise SettingError(
            f"{hints.title(fn)}: Pad({what}={name!r}) is annotated {given}, which cannot hold it; write "
            f"{suits} or an array"
        )
    return library


def _check_padding(signature: Signature, pad: Pad, title: str) -> None:
    known = [p.name for p in signature.parameters] + list(signature.pad_parameters)
    for field_name in ("mask", "lengths"):
        name = getattr(pad, field_name)
        if name is not None and name not in signature.pad_parameters:
            raise SettingError(
                f"{title}: Pad({field_name}={name!r}) names no parameter of it{names.suggestion(name, known)}; "
                f"it has: {', '.join(known)}"
            )
    if pad.collate is None and not signature.padded().keys() - signature.pad_parameters.keys():
        raise SettingError(
            f"{title}: with pad= a parameter must be an array, or a list of lists of numbers (list[list[int]]); "
            f"it has: {', '.join(known)}"
        )


def _stacker(library: str) -> Callable[[list[Any]], Any]:
    return lambda items: arrays.stack(library, items)
