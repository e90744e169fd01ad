"""What an instance says about itself: an OpenAPI 3.1 document, and a page that reads it and lets one try a call."""

from __future__ import annotations

import inspect
from typing import Any, Final

import msgspec

from faas import codec
from faas.function import Endpoint, Function

_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "the path of what does not fit"},
        "request_id": {"type": "string"},
    },
}
_ERRORS: Final = {
    "400": "not JSON, or a header that cannot be read",
    "413": "the body is over the limit",
    "415": "a type or an encoding that the parameters cannot take",
    "422": "the body does not fit, or the handler refused the input",
    "429": "the queue is full, or the deadline cannot be met",
    "500": "the handler failed",
    "503": "the instance is starting or draining",
    "504": "the time for the call is up",
}


def openapi(function: Function, version: str) -> bytes:
    """Return the OpenAPI document of a function as JSON."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    for endpoint in function.endpoints:
        paths[endpoint.path] = {"post": _operation(function, endpoint, schemas)}
    if function.spec.selection is not None and function.spec.selection.learns:
        paths["/feedback"] = {"post": _feedback(schemas)}
    said = inspect.getdoc(function.user) or ""
    return codec.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": function.name, "version": version, "description": said},
            "servers": [{"url": "./"}],
            "paths": paths,
            "components": {"schemas": schemas, "responses": _responses()},
        }
    )


def _operation(function: Function, endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    signature = endpoint.signature
    body, answer = _schemas(endpoint, schemas)
    taken: dict[str, Any] = {"application/json": {"schema": body}}
    if signature.raw is not None:
        part = {"type": "object", "required": [signature.raw.name], "properties": {signature.raw.name: body}}
        taken = {"application/octet-stream": {"schema": body}, "multipart/form-data": {"schema": part}}
    elif any(parameter.type is bytes for parameter in signature.parameters):
        taken["multipart/form-data"] = {"schema": body}
    examples = function.spec.warmup
    if examples and endpoint is function.main and "application/json" in taken:
        taken["application/json"]["example"] = examples[0]
    operation: dict[str, Any] = {
        "operationId": endpoint.method,
        "summary": _summary(function, endpoint),
        "responses": {"200": {"description": "the answer", "content": _answers(endpoint, answer)}},
    }
    operation["responses"] |= {status: {"$ref": f"#/components/responses/{status}"} for status in _ERRORS}
    if signature.parameters:
        required = any(parameter.required for parameter in signature.parameters)
        operation["requestBody"] = {"required": required, "content": taken}
    return operation


def _feedback(schemas: dict[str, Any]) -> dict[str, Any]:
    from faas.engine.selection.feedback import Feedback  # nothing to a function that does not learn

    (body,), parts = msgspec.json.schema_components([Feedback], ref_template="#/components/schemas/{name}")
    schemas |= parts
    errors = {status: {"$ref": f"#/components/responses/{status}"} for status in ("400", "422")}
    return {
        "operationId": "feedback",
        "summary": "Say how good an answer was",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "204": {"description": "it was learned from"},
            "404": {"description": "the call is not remembered"},
            **errors,
        },
    }


def _answers(endpoint: Endpoint, answer: dict[str, Any]) -> dict[str, Any]:
    signature = endpoint.signature
    if signature.returns is bytes and not signature.streams:
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    if not signature.streams:
        return {"application/json": {"schema": answer}}
    whole = {"type": "array", "items": answer}
    return {"application/json": {"schema": whole}, "text/event-stream": {"schema": {"type": "string"}}}


def _schemas(endpoint: Endpoint, schemas: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of body and answer, and add what they refer to; two types of one name are kept apart."""
    body, answer, parts = endpoint.signature.schemas()
    if any(schemas.get(name, part) != part for name, part in parts.items()):
        prefix = f"{endpoint.method}."
        body, answer, parts = endpoint.signature.schemas(f"#/components/schemas/{prefix}{{name}}")
        parts = {f"{prefix}{name}": part for name, part in parts.items()}
    schemas |= parts
    return body, answer


def _summary(function: Function, endpoint: Endpoint) -> str:
    said = inspect.getdoc(getattr(function.user, endpoint.method, None) if function.is_class else function.user)
    return said.splitlines()[0] if said else endpoint.method


def _responses() -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": problem} for status, text in _ERRORS.items()}
