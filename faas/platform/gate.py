"""The control interface for those who are elsewhere: on the platform's own port, for whoever has the token."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from faas.errors import SettingError

PREFIX: Final = b"/_faas/control"
"""Where on the port it is; the rest of the path is as on the Unix socket."""
MIN_TOKEN_CHARACTERS: Final = 16

_REFUSAL: Final = msgspec.json.encode(
    {"type": "about:blank", "status": 401, "detail": "send the platform's token: Authorization: Bearer TOKEN"}
)


def check_token(token: str) -> str:
    """Return a token that is no easy guess.

    Raises:
        SettingError: it is too short, or cannot stand in a header.
    """
    if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingError(
            f"the token must be {MIN_TOKEN_CHARACTERS} or more printable ASCII characters without a space, such as "
            "`openssl rand -hex 24` gives"
        )
    return token


class Gate:
    """Lets requests to an application through that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._digest = _digest(b"Bearer " + token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        # Digests are of one length, so that the time it takes tells nothing of the token.
        if len(sent) == 1 and secrets.compare_digest(_digest(sent[0]), self._digest):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/problem+json"), (b"www-authenticate", b"Bearer")]
        headers.append((b"content-length", b"%d" % len(_REFUSAL)))
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSAL})


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()
