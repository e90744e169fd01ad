"""Checks a document against the notation of `tests/deploy/data/service_schema.yaml`, which explains it."""

import re
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).parents[1] / "data" / "service_schema.yaml"
_AMOUNT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
SERVICE: dict[str, Any] = yaml.safe_load(_FILE.read_text())


def problems(document: Any, schema: Any = SERVICE, path: str = "") -> list[str]:
    """Every place where `document` does not fit, as `path: what is wrong`; a field that is not declared is one."""
    if isinstance(schema, dict):
        return _object(document, schema, path)
    if isinstance(schema, list):
        if not isinstance(document, list):
            return [f"{path}: must be a list"]
        return [text for i, item in enumerate(document) for text in problems(item, schema[0], f"{path}[{i}]")]
    return [] if _fits(document, schema) else [f"{path}: must be {schema}, is {document!r}"]


def merge_key(schema: Any) -> str | None:
    """The field by which server-side apply merges a list of this schema, None for one that it replaces whole."""
    if not isinstance(schema, list) or not isinstance(schema[0], dict):
        return None
    return next((key[6:-1] for key in schema[0] if key.startswith("keyed(")), None)


def below(schema: Any, key: str) -> Any:
    """The schema of a field; of anything inside a free object it is free."""
    if not isinstance(schema, dict):
        return "free"
    return schema.get(key, schema.get(f"{key}!", "free"))


def _object(document: Any, schema: dict[str, Any], path: str) -> list[str]:
    if not isinstance(document, dict):
        return [f"{path}: must be an object"]
    fields = {key.removesuffix("!"): value for key, value in schema.items() if not key.startswith("keyed(")}
    found = [f"{path}.{key[:-1]}: is required" for key in schema if key.endswith("!") and key[:-1] not in document]
    for key, value in document.items():
        if key in fields:
            found += problems(value, fields[key], f"{path}.{key}")
        else:
            found.append(f"{path}.{key}: field not declared in schema")
    return found


def _fits(value: Any, kind: str) -> bool:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if kind in ("map", "free", "amounts"):
        if not isinstance(value, dict):
            return False
        if kind == "map":
            return all(isinstance(item, str) for item in value.values())
        return kind == "free" or all(
            isinstance(item, int) or (isinstance(item, str) and _AMOUNT.fullmatch(item)) for item in value.values()
        )
    return {
        "text": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": is_int,
        "int or text": is_int or isinstance(value, str),
    }[kind]
