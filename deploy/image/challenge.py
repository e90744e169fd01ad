"""What a registry asks for in `WWW-Authenticate`, and the access tokens that were got for it.

The token flow is that of the distribution project ("Token Authentication Specification"): a registry names a `realm`,
which gives a token for a `service` and `scopes` to whoever shows credentials there, or an identity token.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.image.auth import Credentials

_PARAMETER = re.compile(r'\s*([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?:,|\Z)')
_SCHEME = re.compile(r"\s*(basic|bearer)(?:\s+|\Z)", re.IGNORECASE)
_CLIENT = "faas"


@dataclass(frozen=True)
class Challenge:
    """One scheme, `basic` or `bearer`, with its parameters."""

    scheme: str
    parameters: Mapping[str, str]

    @property
    def realm(self) -> str:
        """For `bearer`, the address where tokens are given."""
        return self.parameters.get("realm", "")


@dataclass(frozen=True)
class TokenRequest:
    """What to send to a realm: a GET with `query`, or a POST with `form`."""

    url: str
    query: tuple[tuple[str, str], ...] = ()
    form: Mapping[str, str] | None = None
    authorization: str | None = None


def parse(headers: Iterable[str]) -> Challenge | None:
    """The challenge to answer: the first of `bearer`, else of `basic`; None where there is neither."""
    found: dict[str, Challenge] = {}
    for header in headers:
        scheme = _SCHEME.match(header)
        if scheme is None:
            continue
        parameters, at = {}, scheme.end()
        while matched := _PARAMETER.match(header, at):
            quoted = matched[2]
            parameters[matched[1].lower()] = matched[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            at = matched.end()
        found.setdefault(scheme[1].lower(), Challenge(scheme[1].lower(), parameters))
    return found.get("bearer") or found.get("basic")


def token_request(challenge: Challenge, scopes: Iterable[str], credentials: Credentials | None) -> TokenRequest:
    """How to ask for a token. The registry's own scope is asked for too: it may know better what it needs."""
    service = challenge.parameters.get("service", "")
    wanted = list(dict.fromkeys([*scopes, *filter(None, [challenge.parameters.get("scope")])]))
    if credentials is not None and credentials.identity_token:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": credentials.identity_token,
            "service": service,
            "client_id": _CLIENT,
            "scope": " ".join(wanted),
        }
        return TokenRequest(challenge.realm, form=form)
    query = [("service", service)] if service else []
    query += [("scope", scope) for scope in wanted]
    return TokenRequest(challenge.realm, tuple(query), authorization=credentials.basic if credentials else None)


def token_of(answer: Any) -> str | None:
    """The token in a realm's answer, None where there is none that can stand in a header."""
    if not isinstance(answer, dict):
        return None
    token = answer.get("token") or answer.get("access_token")
    return token if isinstance(token, str) and token.isascii() and token.isprintable() else None
