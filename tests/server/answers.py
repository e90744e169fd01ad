"""The simplest function, and what answers must look like."""

from __future__ import annotations

import json
from typing import Any

import httpx

from faas import inference_function


@inference_function
async def echo(value: Any) -> Any:
    return value


def strict_json(body: bytes) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(body.decode("utf-8", "strict"), parse_constant=refuse)


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    said: dict[str, Any] = strict_json(response.content)
    assert said["status"] == status
    assert said["request_id"] == response.headers["x-request-id"]
    return said
