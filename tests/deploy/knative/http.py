"""ASGI, as far as the stand-in needs it."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def body_of(receive: Receive) -> bytes:
    found = b""
    while True:
        message = await receive()
        found += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return found


async def send_json(send: Send, code: int, document: Any) -> None:
    await start(send, code, "application/json")
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


async def start(send: Send, code: int, content_type: str) -> None:
    await send({"type": "http.response.start", "status": code, "headers": [(b"content-type", content_type.encode())]})


async def send_part(send: Send, text: str, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": more})
