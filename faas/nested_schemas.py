"""JSON schemas that bring definitions of their own (`$defs`, as pydantic's), made parts of a document around them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

_DEFINITIONS: Final = "$defs"


def hoisted(schema: Any, parts: dict[str, Any], ref_template: str) -> Any:
    """Return `schema` without the `$defs` in it, at whatever depth: they are put into `parts` and referred to there.

    `ref_template` makes a reference of a part's `{name}`. Where another part has such a name, a number is added.
    """
    if isinstance(schema, list):
        return [hoisted(one, parts, ref_template) for one in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {key: value for key, value in schema.items() if key != _DEFINITIONS}
    if _DEFINITIONS in schema:
        rest = _moved(rest, schema[_DEFINITIONS], parts, ref_template)
    return {key: hoisted(value, parts, ref_template) for key, value in rest.items()}


def _moved(rest: Any, definitions: Mapping[str, Any], parts: dict[str, Any], ref_template: str) -> Any:
    for number in count(1):
        new = {name: name if number == 1 else f"{name}_{number}" for name in definitions}
        references = {f"#/{_DEFINITIONS}/{name}": ref_template.format(name=new[name]) for name in definitions}
        made = {new[name]: _referring(value, references) for name, value in definitions.items()}
        if all(parts.get(name, value) == value for name, value in made.items()):
            break
    parts |= made
    return _referring(rest, references)


def _referring(value: Any, references: Mapping[str, str]) -> Any:
    """Return `value` with its references, those in the mapping of a discriminator too, replaced."""
    if isinstance(value, list):
        return [_referring(one, references) for one in value]
    if isinstance(value, dict):
        return {key: _referring(one, references) for key, one in value.items()}
    return references.get(value, value) if isinstance(value, str) else value
