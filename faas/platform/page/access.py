"""Who may see what a platform does: those on its own machine, and those who have its token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

_SAME_PAGE = ("same-origin", "none")


@dataclass(frozen=True)
class Refusal:
    """Why somebody may not: the status and the words of the answer."""

    status: int
    detail: str


@dataclass(frozen=True)
class Access:
    """What is asked of a request for control data.

    A platform that listens on loopback alone is open to who reaches it, as long as the Host header names this machine:
    a page of another site that has its own name resolve to loopback sends its own name. Elsewhere the token is needed,
    as `Authorization: Bearer TOKEN`; a header is nothing that another site's page can make a browser send.
    """

    is_loopback: bool
    token: str | None = field(default=None, repr=False)

    def refusal(self, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request with these headers (names in lower case) is refused, or None."""
        if headers.get("sec-fetch-site", "none") not in _SAME_PAGE:
            return Refusal(403, "a page of another site asks for this; open the platform's own page instead")
        if self._has_token(headers.get("authorization", "")):
            return None
        if self.is_loopback:
            host = headers.get("host", "")
            if is_local(host):
                return None
            if self.token is None:
                return Refusal(
                    403, f"Host {host[:200]!r} is not this machine: use http://127.0.0.1 or http://localhost"
                )
        if self.token is None:
            return Refusal(
                403, "this platform listens beyond its own machine and has no token: what it does is shown to nobody"
            )
        return Refusal(401, "send the platform's token: Authorization: Bearer TOKEN")

    def _has_token(self, authorization: str) -> bool:
        scheme, _, sent = authorization.partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(sent.strip().encode(), self.token.encode())


def is_local(host: str) -> bool:
    """Whether a Host header, port and all, can only mean the machine that the client runs on."""
    name = host.rpartition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    name = name.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def is_loopback(address: str) -> bool:
    """Whether an address that a server listens on is reached from its own machine alone."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
