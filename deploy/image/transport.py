"""Requests to one registry: authorized, tried again where that can help, and failed in words.

A `RegistryError` says what was asked for and what to do. What is tried again: an answer 429 or 5xx, after as long as it
says (`Retry-After`) or a time that doubles, and a connection that broke, unless the caller sees to that.
"""

import contextlib
import email.utils
import json
import random
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from deploy import proxy
from deploy.image import challenge as challenges
from deploy.image.connection import Connection
from deploy.image.errors import Denied, Faulty, NoAnswer, NotAccepted, NotInRegistry, RegistryError
from deploy.image.proxy_transport import ProxyTransport
from deploy.image.reference import is_loopback

NUM_ATTEMPTS = 5

_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 60.0
_TIMEOUT = httpx.Timeout(connect=10.0, read=60.0, write=60.0, pool=None)
_MAX_ERROR_BYTES = 64 << 10
_MAX_TOKEN_BYTES = 1 << 20
_LOG_IN = "log in (docker login, or FAAS_REGISTRY, FAAS_REGISTRY_USER and FAAS_REGISTRY_PASSWORD)"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request. `content` may be read more than once; `scopes` are what a token must allow.

    `accepted` are the statuses that the caller deals with, besides those below 300.
    """

    method: str
    url: str
    what: str
    scopes: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Iterable[bytes] | None = None
    accepted: tuple[int, ...] = ()
    num_attempts: int = NUM_ATTEMPTS


class Transport:
    """One registry. A context manager: it ends with its connections closed."""

    def __init__(self, registry: str, connection: Connection) -> None:
        self.registry = registry
        self.endpoint = httpx.URL(connection.endpoint(registry))
        self._connection = connection
        # A proxy of the environment is no way to this machine.
        self._environment = {} if is_loopback(registry) else connection.environment
        self._client = httpx.Client(
            transport=ProxyTransport(connection.certificates(), self._environment),
            timeout=_TIMEOUT,
            follow_redirects=True,
            trust_env=False,
            headers={"User-Agent": "faas", "Accept-Encoding": "identity"},
        )
        self._lock = threading.Lock()
        self._authorizations: dict[tuple[str, ...], str] = {}

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def url(self, path: str) -> str:
        """The address of a path of the API."""
        return str(self.endpoint.copy_with(path=f"/v2/{path}"))

    def resolve(self, location: str, base: str) -> str:
        """Where a `Location` leads. On the registry's own host its scheme stays: behind a proxy it may not know it."""
        found = httpx.URL(base).join(location)
        return str(found.copy_with(scheme=self.endpoint.scheme) if found.host == self.endpoint.host else found)

    @contextlib.contextmanager
    def open(self, call: Call) -> Iterator[httpx.Response]:
        """The answer, its body not yet read.

        Raises:
            RegistryError: there is none, or not one that the caller deals with.
        """
        response = self._send(call)
        try:
            yield response
        except httpx.HTTPError as error:
            raise self.unreachable(call, error) from None
        finally:
            response.close()

    def ask(self, call: Call, most_bytes: int = _MAX_ERROR_BYTES) -> tuple[httpx.Response, bytes]:
        """The answer with its body, of which no more than `most_bytes` are taken. Raises RegistryError."""
        for attempt in range(call.num_attempts):
            response = self._send(call)  # what does not begin to answer was tried often enough by then
            try:
                return response, self._body(response, call, most_bytes)
            except httpx.HTTPError as error:
                if attempt + 1 == call.num_attempts:
                    raise self.unreachable(call, error) from None
            finally:
                response.close()
            self.wait(attempt)
        raise AssertionError("a call has an attempt at least")

    def wait(self, attempt: int, asked_s: float | None = None) -> None:
        """Wait before the attempt after this one (0: the first): as long as the registry asked, or longer each time."""
        usual_s = _FIRST_WAIT_S * 2**attempt * random.uniform(0.75, 1.25)  # so that many do not come back at once
        self._connection.sleep(min(_LONGEST_WAIT_S, usual_s if asked_s is None else asked_s))

    def unreachable(self, call: Call, error: Exception) -> NoAnswer:
        """The error of a call that got no whole answer."""
        why = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, ssl.SSLError) or "CERTIFICATE" in why.upper():
            remedy = "give the certificate of its authority (--ca-file)"
        elif (way := proxy.choose(call.url, self._environment)) is not None:
            why += f" (through the proxy {proxy.without_password(way)})"
            remedy = f"where it needs no proxy, add {self.endpoint.host} to NO_PROXY"
        elif "SSL" in why.upper():
            remedy = f"if it speaks plain HTTP, say so (--insecure {self.registry})"
        else:
            remedy = "see that it runs and can be reached from here"
        return NoAnswer(f"{self.registry}/{_repository_of(call)}", f"no answer to {call.what}: {why}", remedy)

    def _send(self, call: Call) -> httpx.Response:
        """Have a call answered, in as many attempts as it has."""
        for attempt in range(call.num_attempts):
            last = attempt + 1 == call.num_attempts
            try:
                response = self._authorized(call)
            except httpx.InvalidURL as error:
                raise Faulty(
                    f"{self.registry}/{_repository_of(call)}", f"{call.what}: {error}", "ask who runs it"
                ) from None
            except httpx.HTTPError as error:
                if last or _stays(error):
                    raise self.unreachable(call, error) from None
                self.wait(attempt)
                continue
            if response.status_code < 300 or response.status_code in call.accepted:
                return response
            if last or not (response.status_code == 429 or response.status_code >= 500):
                break
            response.close()
            self.wait(attempt, retry_after_s(response.headers.get("retry-after"), time.time()))
        try:
            raise self._failure(call, response)
        finally:
            response.close()

    def _authorized(self, call: Call) -> httpx.Response:
        """Send a call with what was got for its scopes; asked for more, get that, once."""
        key = call.scopes
        with self._lock:
            known = self._authorizations.get(key)
        response = self._once(call, known)
        if response.status_code != 401 or not self._is_ours(response.url):
            return response
        challenge = challenges.parse(response.headers.get_list("www-authenticate"))
        if challenge is None:
            return response
        got = self._authorization(challenge, call)
        if got is None or (got == known and challenge.scheme == "basic"):
            return response
        response.close()
        with self._lock:
            self._authorizations[key] = got
        return self._once(call, got)

    def _once(self, call: Call, authorization: str | None) -> httpx.Response:
        headers = dict(call.headers)
        if authorization is not None and self._is_ours(httpx.URL(call.url)):
            headers["Authorization"] = authorization
        request = self._client.build_request(call.method, call.url, headers=headers, content=call.content)
        return self._client.send(request, stream=True)

    def _is_ours(self, url: httpx.URL) -> bool:
        """Whether an address is the registry's own: nobody else is shown credentials, or asks for them."""
        return (url.scheme, url.host, url.port) == (self.endpoint.scheme, self.endpoint.host, self.endpoint.port)

    def _authorization(self, challenge: challenges.Challenge, call: Call) -> str | None:
        credentials = self._connection.keychain.find(self.registry)
        if challenge.scheme == "basic":
            return credentials.basic if credentials is not None and not credentials.identity_token else None
        asked = challenges.token_request(challenge, call.scopes, credentials)
        realm = httpx.URL(asked.url) if asked.url else None
        where = f"{self.registry}/{_repository_of(call)}"
        if realm is None or not (realm.scheme == "https" or self.endpoint.scheme == "http"):
            raise Faulty(where, f"it sends for tokens to {asked.url!r}, which is not safe", "ask who runs it")
        request = self._client.build_request(
            "GET" if asked.form is None else "POST",
            realm.copy_merge_params(asked.query) if asked.query else realm,
            headers={"Authorization": asked.authorization} if asked.authorization else {},
            data=dict(asked.form) if asked.form is not None else None,
        )
        response = self._client.send(request, stream=True, follow_redirects=False)
        try:
            body = self._body(response, call, _MAX_TOKEN_BYTES)
        finally:
            response.close()
        if response.status_code == 429 or response.status_code >= 500:
            raise httpx.ReadError(f"{realm.host} answers {response.status_code} where tokens are given")
        if response.status_code != 200:
            what = f"no token for {call.what}: {realm.host} answers {response.status_code}{_said(body)}"
            raise Denied(where, what, self._how_to_log_in(credentials is not None), status=response.status_code)
        try:
            token = challenges.token_of(json.loads(body))
        except (ValueError, RecursionError):
            token = None
        if token is None:
            raise Faulty(where, f"{realm.host} gives no token where tokens are given", "ask who runs it")
        return f"Bearer {token}"

    def _body(self, response: httpx.Response, call: Call, most_bytes: int) -> bytes:
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > most_bytes:
                what = f"the answer to {call.what} is over {most_bytes} bytes"
                raise Faulty(f"{self.registry}/{_repository_of(call)}", what, "ask who runs it")
        return bytes(body)

    def _failure(self, call: Call, response: httpx.Response) -> RegistryError:
        """The error that an answer is."""
        where, status = f"{self.registry}/{_repository_of(call)}", response.status_code
        try:
            said = _said(self._body(response, call, _MAX_ERROR_BYTES))
        except (httpx.HTTPError, Faulty):
            said = ""
        what = f"{call.what}: answered {status}{said}"
        if status in (401, 403):
            return Denied(where, what, self._how_to_log_in("authorization" in response.request.headers), status=status)
        if status == 404:
            remedy = "correct the name, or push it there"
            if call.method not in ("GET", "HEAD"):
                remedy = "make the repository there first: this registry makes none by itself"
            return NotInRegistry(where, what, remedy, status=status)
        if status == 429 or status >= 500:
            later_s = retry_after_s(response.headers.get("retry-after"), time.time())
            return Faulty(where, what, "try again later, or ask who runs it", status=status, retry_after_s=later_s)
        return NotAccepted(where, what, "see what the registry says", status=status)

    def _how_to_log_in(self, is_known: bool) -> str:
        return "see that this user may do that there, or log in as another" if is_known else _LOG_IN


def retry_after_s(header: str | None, now_s: float) -> float | None:
    """Seconds that a `Retry-After` asks for (RFC 9110, 10.2.3); `now_s` is Unix time. None where it says nothing."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header.strip()[:6])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def _stays(error: httpx.HTTPError) -> bool:
    """Whether another attempt would fail the same way: a certificate, or an answer that is no TLS."""
    return any(sign in str(error).upper() for sign in ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER"))


def _said(body: bytes) -> str:
    """What a registry's error says, in its form (`errors`, each with `code` and `message`) or in none."""
    try:
        document: Any = json.loads(body)
        first = document["errors"][0]
        text = ": ".join(str(first[key]) for key in ("code", "message") if first.get(key))
        detail = first.get("detail")
        text += f" ({json.dumps(detail)})" if detail else ""
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        text = body[:200].decode(errors="replace")
    text = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return f" {text[:300]}" if text else ""


def _repository_of(call: Call) -> str:
    first = call.scopes[0] if call.scopes else ""
    return first.split(":")[1] if first.count(":") >= 2 else ""
