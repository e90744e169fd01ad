"""One request to the API server: its time-outs, its errors as ours, its answer as plain values.

The connection (TLS, credentials, exec plugins, renewal of tokens) is the `kubernetes` package's. Its generated calls
are not used: they differ from release to release, and server-side apply, dry runs and watches need none of their
models.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, NoReturn
from urllib.parse import urlencode

from deploy import errors
from deploy.knative.connection import Connection
from deploy.knative.resources import Document
from deploy.proxy import without_password
from deploy.refusal import explain

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=1,application/json"
METADATA_LIST_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json"

_CONNECT_S = 10.0
_READ_S = 30.0
_PAGE = 500
_BUSY = 429  # not begun, so that any method may be sent again; the pauses are ours, a proxy may say an hour
_UNTYPED = "failed to create typed patch object"  # what breaks the schema in an apply is answered 500
_FOR_A_MOMENT = ("failed calling webhook", "etcdserver: ")  # answered 500, too, while a pod of theirs starts anew
_NO_API_SERVER = "what the kubeconfig names is a page to log in at, or no API server: get a kubeconfig anew"
_ERRORS: dict[int, type[errors.ApiError]] = {
    400: errors.Refused,
    401: errors.NotAllowed,
    403: errors.NotAllowed,
    404: errors.Missing,
    409: errors.Conflict,
    410: errors.Expired,
    422: errors.Refused,
    429: errors.Unavailable,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}

Query = Mapping[str, str | int | bool]


class Rest:
    """Requests to one API server. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        import urllib3
        from kubernetes.client.rest import RESTClientObject
        from urllib3.exceptions import HTTPError
        from urllib3.util import Retry

        self.connection = connection
        if not connection.configuration.verify_ssl:  # so the kubeconfig says, and need not be told with each request
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        connection.configuration.retries = Retry(
            total=4, connect=1, read=0, redirect=0, other=0, status=4, backoff_factor=0.3,
            status_forcelist=[_BUSY], allowed_methods=None, raise_on_status=False, respect_retry_after_header=False,
        )  # fmt: skip
        if (connection.proxy or "").startswith("socks") and find_spec("socks") is None:
            raise errors.MissingLibrary(f"{self._where()} needs the package PySocks; install it: pip install PySocks")
        try:
            self._client = RESTClientObject(connection.configuration)
        except HTTPError as unknown:
            text = f"{self._where()} cannot be used: {unknown}; write the proxy as http://host:port"
            raise errors.NoCluster(text) from unknown

    def close(self) -> None:
        """Close idle connections."""
        self._client.pool_manager.clear()

    def get(self, path: str, query: Query | None = None, *, accept: str = "application/json") -> Document:
        """Read one object, or one page of a list."""
        return self._document("GET", path, query, accept=accept)

    def list_all(self, path: str, query: Query | None = None, *, accept: str = "application/json") -> Document:
        """A list, every page of it; begun anew, once, where a page expires before it is fetched."""
        try:
            return self._pages(path, query or {}, accept)
        except errors.Expired:
            return self._pages(path, query or {}, accept)

    def apply(self, path: str, document: Document, query: Query) -> Document:
        """Server-side apply; `query` names the field manager. JSON is YAML, so the body is JSON."""
        return self._document("PATCH", path, query, body=document, content_type=APPLY)

    def merge(self, path: str, patch: Document, query: Query | None = None) -> Document:
        """A JSON merge patch: a null removes."""
        return self._document("PATCH", path, query, body=patch, content_type=MERGE, accept=METADATA_ONLY)

    def create(self, path: str, document: Document, query: Query | None = None) -> Document:
        """Create an object in the collection at `path`."""
        return self._document("POST", path, query, body=document, accept=METADATA_ONLY)

    def delete(self, path: str, options: Document | None = None) -> Document:
        """Delete one object; `options` are Kubernetes' DeleteOptions."""
        return self._document("DELETE", path, None, body=options or {})

    def text(self, path: str, query: Query | None = None, *, timeout_s: float = _READ_S) -> str:
        """An answer that is text: a log, or what a pod says through the API server's proxy."""
        with self.stream(path, query, read_timeout_s=timeout_s) as response:
            return bytes(response.read()).decode("utf-8", "replace")

    def date(self) -> tuple[str | None, str]:
        """The server's clock as its `Date` header has it, and its version (`/version` needs no right)."""
        with self.stream("/version", None, read_timeout_s=_READ_S) as response:
            version = json.loads(response.read()).get("gitVersion", "unknown")
            return response.headers.get("Date"), version

    @contextmanager
    def stream(self, path: str, query: Query | None, *, read_timeout_s: float) -> Iterator[Any]:
        """An answer to be read as it comes; `read_timeout_s` bounds each silence in it."""
        response = self._send("GET", path, query, read_timeout_s=read_timeout_s)
        try:
            yield response
        finally:
            response.close()

    def _pages(self, path: str, query: Query, accept: str) -> Document:
        page = self.get(path, {**query, "limit": _PAGE}, accept=accept)
        items = list(page.get("items") or [])
        while token := page["metadata"].get("continue"):
            page = self.get(path, {**query, "limit": _PAGE, "continue": token}, accept=accept)
            items += page.get("items") or []
        return {**page, "items": items}

    def _document(
        self,
        method: str,
        path: str,
        query: Query | None,
        *,
        body: Document | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Document:
        headers = {"Accept": accept, "Content-Type": content_type}
        response = self._send(method, path, query, body=body, headers=headers)
        try:
            found: Document = json.loads(response.read())
            return found
        except ValueError as failed:
            text = f"{self._where()} answered {method} {path} with no JSON: {failed}; {_NO_API_SERVER}"
            raise errors.Unreachable(text) from failed
        finally:
            response.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        *,
        body: Document | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float = _READ_S,
    ) -> Any:
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        def ask(credentials: Mapping[str, str]) -> Any:
            return self._client.pool_manager.request(
                method,
                self._url(path, query),
                body=None if body is None else json.dumps(body).encode(),
                headers={**(headers or {"Accept": "*/*"}), **credentials, "User-Agent": "faas"},
                timeout=Timeout(connect=_CONNECT_S, read=read_timeout_s),
                preload_content=False,
            )

        try:
            credentials = self._credentials()
            try:
                response = ask(credentials)
            except HTTPError as failed:
                if method == "DELETE" or not _broke_off(failed):
                    raise
                response = ask(credentials)  # a change is held to a version: made twice, the second meets a conflict
            if response.status == 401 and (renewed := self._renewed()) != credentials:
                response.close()
                response = ask(renewed)
            if response.status >= 400:
                text = response.read()
                response.close()
                _raise(method, path, response.status, text)
        except HTTPError as failed:
            raise errors.Unreachable(self._unreachable(failed)) from failed
        return response

    def _url(self, path: str, query: Query | None) -> str:
        plain = {key: str(value).lower() if isinstance(value, bool) else value for key, value in (query or {}).items()}
        return f"{self.connection.host.rstrip('/')}{path}{'?' + urlencode(plain) if plain else ''}"

    def _credentials(self) -> dict[str, str]:
        """The header that says who is asking; the library renews a token that has run out."""
        settings = self.connection.configuration.auth_settings().values()
        return {auth["key"]: auth["value"] for auth in settings if auth["in"] == "header" and auth["value"]}

    def _renewed(self) -> dict[str, str]:
        """The same, read anew: a token may have been taken back, or have run out without saying that it would."""
        with suppress(errors.NoCluster):
            self.connection.renew()
        return self._credentials()

    def _where(self) -> str:
        through = (
            "" if self.connection.proxy is None else f" through the proxy {without_password(self.connection.proxy)}"
        )
        return f"the API server {self.connection.host}{through}"

    def _unreachable(self, failed: Exception) -> str:
        cause = getattr(failed, "reason", None) or failed
        if "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return (
                f"{self._where()} is not trusted: {cause}; the kubeconfig's certificate-authority has to be that of "
                "its certificate, and valid: get a kubeconfig anew"
            )
        if "redirect" in str(cause):
            return f"{self._where()} sends to another place; {_NO_API_SERVER}"
        if self.connection.proxy is None:
            return f"{self._where()} cannot be reached: {cause}; is the cluster up, and the kubeconfig of it?"
        host = self.connection.host.partition("://")[2].partition("/")[0]
        return f"{self._where()} cannot be reached: {cause}; where it needs no proxy, add {host} to NO_PROXY"


def _broke_off(failed: Exception) -> bool:
    """Whether a connection ended without an answer: mostly an idle one that something in between has forgotten."""
    from urllib3.exceptions import ProtocolError

    return isinstance(getattr(failed, "reason", None) or failed, ProtocolError)


def raise_for_status(status: Document, doing: str) -> NoReturn:
    """Raise what a `Status` document says, such as one that a watch brings as an event."""
    code = int(status.get("code") or 500)
    causes = (status.get("details") or {}).get("causes") or ()
    message = explain(doing, code, str(status.get("message") or status.get("reason") or "no reason given"))
    kind = _ERRORS.get(code, errors.ApiError)
    if _UNTYPED in message:
        kind = errors.Refused
    elif any(said in message for said in _FOR_A_MOMENT):
        kind = errors.Unavailable
    raise kind(message, status=code, reason=str(status.get("reason") or ""), causes=causes)


def _raise(method: str, path: str, code: int, body: bytes) -> NoReturn:
    try:
        status = json.loads(body)
        if not isinstance(status, dict) or "message" not in status:
            raise ValueError
    except ValueError:
        status = {"message": body[:500].decode("utf-8", "replace").strip()}
    raise_for_status({**status, "code": code}, f"{method} {path}")
