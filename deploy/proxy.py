"""Which proxy stands between here and a host: one rule for the environment, whatever a library makes of it.

`HTTPS_PROXY` serves https, `HTTP_PROXY` http, `ALL_PROXY` what is left; the lower-case name wins where both are set.
`NO_PROXY` lists, with commas or blanks between them, what is reached directly: `*` for everything, a host, a suffix
(`.example.com` or `example.com`, its subdomains with it), an address, or a range of addresses (`10.0.0.0/8`). A port
after a host confines the entry to that port. Names are not resolved: a range covers hosts that are given as addresses.
"""

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


def choose(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for `url` as `environ` has it, None for a direct connection."""
    parts = urlsplit(url)
    proxy = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    if not proxy or bypasses(url, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def without_password(proxy: str) -> str:
    """A proxy's address as it may be shown."""
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def headers(proxy: str) -> dict[str, str]:
    """The header that authenticates to a proxy, with the user and the password in its address, if there are any."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}


def bypasses(url: str, no_proxy: str) -> bool:
    """Whether the list `no_proxy` has the host of `url` reached directly."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return any(_covers(entry, host, port) for entry in no_proxy.replace(",", " ").lower().split())


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if address is not None and (network := _network(entry)) is not None:
        return address in network
    name, wanted_port = _split_port(entry)
    if wanted_port is not None and wanted_port != port:
        return False
    if address is not None:
        return _address(name) == address
    suffix = name.removeprefix("*").strip(".")
    return bool(suffix) and (host == suffix or host.endswith(f".{suffix}"))


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, int(rest[1:]) if rest[1:].isdigit() else None
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and ":" not in name:
        return name, int(port)
    return entry, None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
