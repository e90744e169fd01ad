"""The head of a request: what the activator reads of it, and what an instance gets.

A head that llhttp has passed goes on as it came, but for the headers that concern this hop alone and those that are
ours to set. Pure.
"""

import re
from typing import NamedTuple

import httptools

from faas.platform.wire import WireError
from faas.server.headers import ACTIVATE_MS, COLD, INSTANCE_ID, REQUEST_ID, TIMEOUT_MS

_REQUEST_LINE = re.compile(rb"([A-Z-]+) ([^ \r\n]+) HTTP/1\.([01])\r\n")
_READ = re.compile(  # the headers that are read, in a head in lower case
    rb"\r\n(?=[chktpux])(host|content-length|transfer-encoding|connection|keep-alive|proxy-connection|te|trailer|upgrade"
    rb"|knative-serving-tag"
    rb"|x-(?:forwarded-for|forwarded-proto|request-id|instance-id|request-timeout-ms|faas-tag|faas-cold|faas-activate-ms))"
    rb":([^\r\n]*)"
)
_ANY = re.compile(rb"\r\n([^:\r\n]+):[^\r\n]*")
_OF_THIS_HOP = (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade")
_OURS = (b"x-forwarded-for", TIMEOUT_MS, COLD, ACTIVATE_MS)
_DROPPED = frozenset((*_OF_THIS_HOP, *_OURS))
_KEPT = frozenset((b"", b"close", b"keep-alive", b"upgrade", b"content-length", b"host", b"transfer-encoding"))
_HOST = re.compile(rb"\r\nhost:[^\r\n]*", re.IGNORECASE)
_TAGS = (b"x-faas-tag", b"knative-serving-tag")
_UPGRADE = re.compile(rb"\r\nupgrade:[ \t]*([^\r\n]*)", re.IGNORECASE)
_STATED_ID = re.compile(rb"\r\nx-request-id:[ \t]*([^\r\n]*)", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:", re.IGNORECASE)
_MILLISECONDS = re.compile(rb"[0-9]{1,15}(?:\.[0-9]{0,15})?")
_DECLINED_UPGRADES = (b"h2c", b"http/", b"tls/")  # an instance speaks HTTP/1.1, and a tunnel would hide requests


class Held(NamedTuple):
    """That a request was held: for how long in all, and whether for an instance to start."""

    total_ms: float
    is_cold: bool

    def encode(self) -> bytes:
        """The headers that tell an instance."""
        waited = b"\r\n%b: %.3f" % (ACTIVATE_MS, self.total_ms)
        return b"%b\r\n%b: 1" % (waited, COLD) if self.is_cold else waited


class RequestHead:
    """One request without its body. `lines` are its headers as they go on, each after the end of a line."""

    content_length = 0
    chunked = False
    is_http10 = False
    keep_alive = True
    request_id = b""  # that the client chose
    tag = b""  # of the revision that is asked for, in lower case
    upgrade = b""  # the protocol to change to, where it is one that an instance may grant
    timeout_ms: float | None = None
    instance_id = b""  # of the instance that is meant, in lower case, as ids are

    def __init__(self, method: bytes, url: bytes, host: bytes, lines: bytes) -> None:
        self.method = method
        self.url = url
        self.host = host  # in lower case, port and all
        self.lines = lines
        self._path = b""  # of the head that was encoded last: the same head often comes again
        self._start = b""

    @property
    def waits_to_be_asked(self) -> bool:
        """Whether the client holds the body back until it is told to send it."""
        return _EXPECT.search(self.lines) is not None

    def encode(self, path: bytes, body: bytes, request_id: bytes, held: Held | None) -> bytes:
        """The head as an instance gets it, for `path`, and what there is of the body."""
        if path != self._path:
            self._path, self._start = path, self._encode_start(path)
        times = b"" if held is None and self.timeout_ms is None else self._encode_times(held)
        return b"%b%b%b\r\n\r\n%b" % (self._start, b"" if self.request_id else request_id, times, body)

    def _encode_start(self, path: bytes) -> bytes:
        """All that is the same each time; an id that is ours to give stands at the end."""
        version = b"HTTP/1.0" if self.is_http10 else b"HTTP/1.1"
        start = b"%b %b %b%b" % (self.method, path, version, self.lines)
        if self.upgrade:
            start += b"\r\nconnection: upgrade\r\nupgrade: " + self.upgrade
        return start if self.request_id else start + b"\r\nx-request-id: "

    def _encode_times(self, held: Held | None) -> bytes:
        """The headers with the time that is left for the request, and with how long it was held."""
        times = b"" if held is None else held.encode()
        if self.timeout_ms is None:
            return times
        left_ms = self.timeout_ms - (held.total_ms if held else 0.0)
        return b"\r\n%b: %d%b" % (TIMEOUT_MS, max(1.0, left_ms), times)


def read_request_head(raw: bytes, peer: bytes) -> RequestHead:
    """Read a head that llhttp has passed; `peer` is the client's address, empty where it has none.

    Raises WireError for what llhttp lets through and we do not.
    """
    line = _REQUEST_LINE.match(raw)
    if line is None:
        raise WireError(400, "the request line is not 'METHOD target HTTP/1.1'")
    method, url, minor = line.groups()
    if method == b"CONNECT":
        raise WireError(501, "CONNECT is not served here")
    lowered, start = raw.lower(), line.end() - 2
    headers = _READ.findall(lowered, start)
    found: dict[bytes, bytes] = dict(headers)
    if len(found) < len(headers):
        found = _joined(headers)
    head = RequestHead(method, url, found.get(b"host", b"").strip(), raw[start:-4])
    if b"content-length" in found:
        head.content_length = int(found[b"content-length"])
    elif b"transfer-encoding" in found:
        _read_transfer_encoding(head, found[b"transfer-encoding"].strip(), minor)
    for name in _TAGS:
        if name in found:
            head.tag = head.tag or found[name].strip()
    if INSTANCE_ID in found:
        head.instance_id = found[INSTANCE_ID].strip()
    if TIMEOUT_MS in found:
        _read_timeout(head, found[TIMEOUT_MS].strip())
    nominated = _read_connection(head, found[b"connection"], raw) if b"connection" in found else None
    if nominated:
        head.lines = _without(raw, lowered, start, only_read=False, names=_DROPPED | nominated)
    elif not _DROPPED.isdisjoint(found):
        head.lines = _without(raw, lowered, start, only_read=True, names=_DROPPED)
    if minor == b"0":
        head.is_http10, head.keep_alive, head.upgrade = True, False, b""
    elif b"host" not in found:
        raise WireError(400, "an HTTP/1.1 request needs a Host header")
    if not url.startswith(b"/"):
        _read_other_form(head)
    if REQUEST_ID in found:
        head.request_id = _STATED_ID.search(raw)[1].strip()  # type: ignore[index]  # it is there
    _add_ours(head, found, peer)
    return head


def _joined(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers of which some come several times, those as the one list that they mean."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == b"host" and name in found:
            raise WireError(400, "an HTTP/1.1 request needs one Host header, not several")
        found[name] = b"%b,%b" % (found[name], value) if name in found else value
    return found


def _read_transfer_encoding(head: RequestHead, coding: bytes, minor: bytes) -> None:
    if minor == b"0":
        raise WireError(400, "an HTTP/1.0 request cannot have a Transfer-Encoding")
    if coding != b"chunked":
        raise WireError(501, f"Transfer-Encoding {coding.decode('latin-1')!r} is not served here: use chunked")
    head.chunked = True


def _without(raw: bytes, lowered: bytes, start: int, *, only_read: bool, names: frozenset[bytes]) -> bytes:
    """The header lines of `raw` but for those called `names`, which are all among those we read where `only_read`."""
    kept, at = [], start
    for line in (_READ if only_read else _ANY).finditer(lowered, start):
        if line[1] in names:
            kept.append(raw[at : line.start()])
            at = line.end()
    kept.append(raw[at:-4])
    return b"".join(kept)


def _read_timeout(head: RequestHead, value: bytes) -> None:
    if not _MILLISECONDS.fullmatch(value) or float(value) == 0:
        raise WireError(400, f"X-Request-Timeout-Ms is {value.decode('latin-1')!r}: give milliseconds above 0")
    head.timeout_ms = float(value)


def _read_connection(head: RequestHead, connection: bytes, raw: bytes) -> frozenset[bytes]:
    """Read what `Connection` says of this hop; return the names of further headers that are of this hop."""
    tokens = {token.strip() for token in connection.split(b",")}
    head.keep_alive = b"close" not in tokens
    if b"upgrade" in tokens and not head.chunked and not head.content_length:
        wanted = _UPGRADE.search(raw)
        if wanted is not None and not wanted[1].lower().startswith(_DECLINED_UPGRADES):
            head.upgrade = wanted[1].strip()
    return frozenset(tokens - _KEPT)


def _read_other_form(head: RequestHead) -> None:
    """A target that is no path: `*`, or `http://host/path` as sent to proxies, whose host then counts (RFC 9112)."""
    if head.url == b"*" and head.method == b"OPTIONS":
        return
    try:
        url = httptools.parse_url(head.url)
    except httptools.HttpParserInvalidURLError:
        url = None
    if url is None or not url.host or url.schema not in (b"http", b"https"):
        raise WireError(400, "the request target is neither a path nor an http address")
    head.host = (b"%b:%d" % (url.host, url.port) if url.port else url.host).lower()
    head.url = (url.path or b"/") + (b"?" + url.query if url.query else b"")
    head.lines = _HOST.sub(b"", head.lines) + b"\r\nhost: " + head.host


def _add_ours(head: RequestHead, found: dict[bytes, bytes], peer: bytes) -> None:
    """Say who asked."""
    if b"x-forwarded-for" in found:
        peer = b", ".join(filter(None, (found[b"x-forwarded-for"].strip(), peer)))
    ours = b"\r\nx-forwarded-for: " + peer if peer else b""
    if b"x-forwarded-proto" not in found:
        ours += b"\r\nx-forwarded-proto: http"
    head.lines += ours
