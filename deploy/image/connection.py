"""How registries are reached: by which addresses, with whose trust and as whom."""

import functools
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from deploy.image.auth import Keychain
from deploy.image.errors import BadSource
from deploy.image.reference import api_host, is_loopback


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How to reach registries: those in `plain_http` without TLS, as those on this machine are anyway.

    `ca_file` holds certificates (PEM) to trust besides the usual ones. `environment` says which proxies there are.
    """

    plain_http: frozenset[str] = frozenset()
    ca_file: Path | None = None
    keychain: Keychain = field(default_factory=Keychain)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    sleep: Callable[[float], None] = time.sleep

    def endpoint(self, registry: str) -> str:
        """The address of a registry's API."""
        plain = registry in self.plain_http or is_loopback(registry)
        return f"{'http' if plain else 'https'}://{api_host(registry)}"

    def certificates(self) -> ssl.SSLContext:
        """What certificates are checked by. Raises BadSource where `ca_file` holds none."""
        return _certificates(self.ca_file)


@functools.cache
def _certificates(ca_file: Path | None) -> ssl.SSLContext:
    """Read once: to read those that are usual takes longer than many a request."""
    context = httpx.create_ssl_context()
    try:
        if ca_file is not None:
            context.load_verify_locations(cafile=str(ca_file))
    except OSError as error:  # ssl.SSLError is one
        raise BadSource(f"{ca_file} holds no certificates: {error}", "name a file of certificates in PEM") from None
    return context
