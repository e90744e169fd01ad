"""A stand-in for the token flow, before a real registry: who shows no token is sent to /token, where credentials count.

A token is good for the scopes that were asked for with it and for a number of requests, after which it has expired.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote

import httpx
from starlette.responses import JSONResponse, Response

from tests.served import Seen, serving


@dataclass
class Gate:
    """The gate, and how many tokens it gave."""

    host: str = ""
    num_tokens: int = 0
    tokens: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)


@contextmanager
def token_gate(upstream: str, *, user: str, password: str, uses: int) -> Iterator[Gate]:
    gate = Gate()
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    async def answer(seen: Seen) -> Response:
        if seen.path == "/token":
            if seen.headers.get("authorization") != expected:
                return JSONResponse({"details": "who are you"}, 401)
            token, gate.num_tokens = secrets.token_urlsafe(), gate.num_tokens + 1
            gate.tokens[token] = (tuple(parse_qs(seen.query).get("scope", ())), uses)
            return JSONResponse({"token": token})
        repository = re.sub(r"^/v2/(.*)/(manifests|blobs)/.*$", r"\1", seen.path)
        action = "pull" if seen.method in ("GET", "HEAD") else "push"
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        scopes, left = gate.tokens.get(token, ((), 0))
        granted = any(
            scope.startswith(f"repository:{repository}:") and action in scope.rpartition(":")[2].split(",")
            for scope in scopes
        )
        if not left or not granted:
            wanted = f"repository:{repository}:{'pull' if action == 'pull' else 'pull,push'}"
            challenge = f'Bearer realm="http://{gate.host}/token",service="gate",scope="{wanted}"'
            return JSONResponse({"errors": []}, 401, {"WWW-Authenticate": challenge})
        gate.tokens[token] = (scopes, left - 1)
        return await _pass_on(seen, upstream)

    with serving(answer) as served:
        gate.host = served.url.removeprefix("http://")
        yield gate


async def _pass_on(seen: Seen, upstream: str) -> Response:
    headers = {name: value for name, value in seen.headers.items() if name not in ("authorization", "connection")}
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        url = f"http://{upstream}{quote(seen.path, safe='/:@')}"
        answer = await client.request(
            seen.method, f"{url}?{seen.query}" if seen.query else url, headers=headers, content=seen.body
        )
    kept = {name: value for name, value in answer.headers.items() if name not in ("connection", "transfer-encoding")}
    return Response(answer.content, answer.status_code, kept)
