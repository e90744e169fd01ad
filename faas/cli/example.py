"""An example of what a function takes, made from its schema: shown where somebody gave it something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faas import codec
from faas.schema import Signature

_MAX_DEPTH = 6


def of(signature: Signature) -> str:
    """Return command-line options with an example of the function's input, such as `--data '{"name": "text"}'`."""
    if signature.raw is not None:
        return "--file PATH"
    body, _, parts = signature.schemas("{name}")
    made = codec.encode(_value(body, parts, 0)).decode()
    quoted = made.replace("'", "'\\''")
    return f"--data '{quoted}'"


def _value(schema: Mapping[str, Any], parts: Mapping[str, Any], depth: int) -> Any:
    """Return the smallest value that shows the form of a schema; `parts` are the schemas it refers to by name."""
    if depth > _MAX_DEPTH:
        return None
    if "$ref" in schema:
        return _value(parts[schema["$ref"]], parts, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _value(schema[key][0], parts, depth + 1)
    for key in ("default", "const", "enum"):
        if key in schema:
            return schema[key][0] if key == "enum" else schema[key]
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            return {k: _value(v, parts, depth + 1) for k, v in schema.get("properties", {}).items() if k in required}
        case "array":
            each = schema.get("items") or {"type": "number"}  # an array whose elements are not told
            items = schema.get("prefixItems") or [each] * max(1, schema.get("minItems", 0))
            return [_value(item, parts, depth + 1) for item in items]
        case "integer":
            return max(1, schema.get("minimum", 1))
        case "number":
            return 1.5
        case "boolean":
            return True
        case _:
            return "text"
