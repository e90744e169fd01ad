"""The decoders of a signature's bodies, made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from faas import codec, strict
from faas.errors import SettingError
from faas.parameters import Parameter


class BodyDecoders(NamedTuple):
    """`body` reads an object, `bare` the value of the only parameter, where it may stand alone; `check` may be needed.

    The check looks for unknown fields in depth.
    """

    body: msgspec.json.Decoder[Any]
    bare: msgspec.json.Decoder[Any] | None
    check: strict.Check | None

    @classmethod
    def of(cls, parameters: Sequence[Parameter], title: str) -> BodyDecoders:
        """Make those of a handler's parameters.

        Raises:
            SettingError: a type cannot be read from JSON.
        """
        single = parameters[0] if len(parameters) == 1 else None
        try:
            if single is not None and single.is_object:
                return cls(codec.decoder(single.type), None, strict.checker(single.type))
            bare = codec.decoder(single.type) if single is not None else None
            return cls(codec.decoder(_body_struct(parameters, title)), bare, _nested_check(parameters))
        except (TypeError, NotImplementedError, NameError) as error:
            raise SettingError(f"{title}: an annotation cannot be read from JSON: {error}") from None


def _body_struct(parameters: Sequence[Parameter], name: str) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for p in parameters:
        default = msgspec.field(default_factory=p.made_default)
        fields.append((p.name, p.type) if p.required else (p.name, p.type, default))
    return msgspec.defstruct(f"{name.rpartition('.')[2]}_body", fields, forbid_unknown_fields=True, kw_only=True)


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
