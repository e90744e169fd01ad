"""Who may change what an instance holds: whoever has the token, or where there is none, who is on this machine."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from typing import Final, Literal

from starlette.types import Scope

from faas.errors import FaasError

Access = Literal["closed", "local"]
_PASSED_ON: Final = frozenset((b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"via", b"origin"))


class Forbidden(FaasError):
    """Whoever asks for a change may not."""


class Admin:
    """Lets changes be asked for.

    With a token, by who sends it. Without one, by requests that came over the loopback device, that no proxy has passed
    on and no web page has sent. An instance of a platform is `closed` to all: its platform changes what all of them
    hold.
    """

    def __init__(self, access: Access = "local", token: str | None = None) -> None:
        self._access = access
        self._digest = None if token is None else _digest(b"Bearer " + token.encode())

    def check(self, scope: Scope) -> None:
        """Return if a request may change something. Raises Forbidden."""
        if self._access == "closed":
            raise Forbidden("ask the platform's control interface: what one instance holds all hold")
        if self._digest is not None:
            sent = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(sent) != 1 or not secrets.compare_digest(_digest(sent[0]), self._digest):
                raise Forbidden("send the token: Authorization: Bearer TOKEN")
        elif not _is_local(scope) or any(name in _PASSED_ON for name, _ in scope["headers"]):
            raise Forbidden("changes are taken from this machine alone, unless FAAS_TOKEN is set where it is served")


def _is_local(scope: Scope) -> bool:
    """Tell whether a request came over the loopback device."""
    client = scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()
