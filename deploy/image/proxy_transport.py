"""How requests reach a registry, and the places that it redirects to: directly, or through a proxy.

The rule is that of `deploy.proxy`: httpx knows no ranges of addresses in `NO_PROXY`.
"""

import ssl
import threading
from collections.abc import Mapping

import httpx

from deploy import proxy


class ProxyTransport(httpx.BaseTransport):
    """Sends each request, a redirected one too, by the proxy that the environment has for its address, or directly."""

    def __init__(self, certificates: ssl.SSLContext, environment: Mapping[str, str]) -> None:
        self._certificates, self._environment = certificates, environment
        self._lock = threading.Lock()
        self._transports: dict[str | None, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it. Raises httpx.HTTPError."""
        proxied_by = proxy.choose(str(request.url), self._environment)
        with self._lock:
            if proxied_by not in self._transports:
                self._transports[proxied_by] = self._made(proxied_by, request)
        return self._transports[proxied_by].handle_request(request)

    def _made(self, proxied_by: str | None, request: httpx.Request) -> httpx.HTTPTransport:
        try:
            return httpx.HTTPTransport(verify=self._certificates, proxy=proxied_by, trust_env=False)
        except (ImportError, ValueError) as unusable:  # what SOCKS needs is not installed, or there is no such scheme
            raise httpx.ProxyError(f"it cannot be used: {unusable}", request=request) from None

    def close(self) -> None:
        """Let the connections go."""
        for transport in self._transports.values():
            transport.close()
