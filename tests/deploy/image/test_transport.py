"""What one request to a registry does, against a server whose answers the tests write."""

import json
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from deploy.image import upload
from deploy.image.auth import Keychain
from deploy.image.connection import Connection
from deploy.image.errors import Denied, Faulty, NoAnswer, NotAccepted, NotInRegistry, RegistryError
from deploy.image.manifest import Descriptor
from deploy.image.proxy_transport import ProxyTransport
from deploy.image.reference import Reference
from deploy.image.registry import Registries, Repository
from deploy.image.transport import retry_after_s
from tests.served import Seen, Served, serving

BLOB = Descriptor("x", "sha256:" + "0" * 64, 5)


class Client:
    """A repository `app` of a server that answers as it is told, and what was slept."""

    def __init__(self, stack: ExitStack, answer: Callable[[Seen], Response], document: object, tmp_path: Path) -> None:
        async def answered(seen: Seen) -> Response:
            return answer(seen)

        self.server: Served = stack.enter_context(serving(answered))
        self.host = self.server.url.removeprefix("http://")
        self.slept: list[float] = []
        text = json.dumps(document).replace("HOST", self.host)
        keychain = Keychain({"DOCKER_AUTH_CONFIG": text, "HOME": str(tmp_path)})
        connection = Connection(keychain=keychain, sleep=self.slept.append)
        registries = stack.enter_context(Registries(connection))
        self.repository: Repository = registries.repository(Reference.parse(f"{self.host}/app"), push=True)

    @property
    def seen(self) -> list[Seen]:
        return self.server.seen


Connect = Callable[..., Client]


@pytest.fixture
def connect(tmp_path: Path):  # type: ignore[no-untyped-def]
    with ExitStack() as stack:
        yield lambda answer, document=None: Client(stack, answer, document or {}, tmp_path)


AUTH = {"auths": {"HOST": {"username": "user", "password": "hunter2"}}}


def test_what_is_too_many_or_broken_is_asked_again_after_as_long_as_it_says(connect: Connect) -> None:
    answers = [
        Response(status_code=429, headers={"Retry-After": "7"}),
        Response(status_code=503),
        Response(status_code=502, headers={"Retry-After": "4000"}),
        Response(headers={"Content-Length": "5"}),
    ]
    client = connect(lambda seen: answers.pop(0))
    assert client.repository.holds(BLOB)
    assert client.slept[0] == 7
    assert 0.25 < client.slept[1] < 1
    assert client.slept[2] == 60  # nobody waits for an hour
    assert not answers


def test_it_is_given_up_in_words_that_name_registry_repository_and_what(connect: Connect) -> None:
    client = connect(lambda seen: JSONResponse({"errors": [{"code": "DOWN", "message": "no\ndisk"}]}, 503))
    with pytest.raises(Faulty) as caught:
        client.repository.manifest("v1")
    assert str(caught.value) == (
        f"{client.host}/app: the manifest v1: answered 503 DOWN: no disk; try again later, or ask who runs it"
    )
    assert (caught.value.registry, caught.value.repository, caught.value.status) == (client.host, "app", 503)
    assert len(client.slept) == 4


@pytest.mark.parametrize(
    ("status", "kind"), [(403, Denied), (401, Denied), (404, NotInRegistry), (400, NotAccepted), (418, NotAccepted)]
)
def test_other_answers_are_not_asked_again(connect: Connect, status: int, kind: type[RegistryError]) -> None:
    client = connect(lambda seen: Response(b"<html>\x1b[31mno</html>", status))
    with pytest.raises(kind) as caught:
        client.repository.manifest("v1")
    assert f"answered {status}" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert (client.slept, len(client.seen)) == ([], 1)


def test_a_registry_without_tls_is_asked_once_and_how_to_say_so_is_told(connect: Connect) -> None:
    client = connect(lambda seen: Response())
    slept: list[float] = []
    elsewhere = f"0.0.0.0:{client.host.rpartition(':')[2]}"  # the same server; this address is none of this machine's
    told = rf"if it speaks plain HTTP, say so \(--insecure {elsewhere}\)"
    connection = Connection(keychain=Keychain({}), sleep=slept.append)
    with Registries(connection) as registries, pytest.raises(NoAnswer, match=told):
        registries.repository(Reference.parse(f"{elsewhere}/app")).manifest("latest")
    assert slept == []


def test_nobody_there_is_said(tmp_path: Path) -> None:
    slept: list[float] = []
    with Registries(Connection(keychain=Keychain({}), sleep=slept.append)) as registries:
        repository = registries.repository(Reference.parse("127.0.0.1:1/app"))
        with pytest.raises(NoAnswer, match=r"127\.0\.0\.1:1/app: no answer to the manifest latest: .*see that it runs"):
            repository.manifest("latest")
        assert len(slept) == 4, "five attempts, and not five times five"
        with pytest.raises(NoAnswer, match="no answer to blob"):
            list(repository.read(_descriptor(b"abc")))
    assert len(slept) == 8


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        (Response(headers={"Content-Length": "5"}), True),
        (Response(headers={"Content-Length": "4"}), False),
        (StreamingResponse(iter(())), True),
        (Response(status_code=404, headers={"Content-Length": "5"}), False),
    ],
)
def test_a_blob_is_there_also_where_nothing_says_how_large_it_is(
    connect: Connect, answer: Response, holds: bool
) -> None:
    """As where a proxy that compresses stands before a registry; half a blob is none."""
    assert connect(lambda seen: answer).repository.holds(BLOB) is holds


def test_basic_credentials_are_shown_when_they_are_asked_for_and_from_then_on(connect: Connect) -> None:
    def answer(seen: Seen) -> Response:
        if "authorization" not in seen.headers:
            return Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return Response(headers={"Content-Length": "5"})

    client = connect(answer, AUTH)
    assert all(client.repository.holds(BLOB) for _ in range(2))
    assert [one.headers.get("authorization") for one in client.seen] == [
        None,
        "Basic dXNlcjpodW50ZXIy",
        "Basic dXNlcjpodW50ZXIy",
    ]


def test_wrong_credentials_are_shown_once(connect: Connect) -> None:
    client = connect(lambda seen: Response(status_code=401, headers={"WWW-Authenticate": "Basic"}), AUTH)
    for num_requests in (2, 3):
        with pytest.raises(Denied, match="see that this user may do that there") as caught:
            client.repository.holds(BLOB)
        assert "hunter2" not in str(caught.value)
        assert len(client.seen) == num_requests


def test_without_credentials_it_is_said_how_to_log_in(connect: Connect) -> None:
    client = connect(lambda seen: Response(status_code=401, headers={"WWW-Authenticate": "Basic"}))
    with pytest.raises(Denied, match="docker login"):
        client.repository.holds(BLOB)


def test_a_repository_that_a_registry_does_not_make_by_itself_is_said_so(connect: Connect) -> None:
    client = connect(lambda seen: JSONResponse({"errors": [{"code": "NAME_UNKNOWN"}]}, 404))
    with pytest.raises(NotInRegistry, match="NAME_UNKNOWN; make the repository there first"):
        upload.upload(client.repository, upload.Blob(_descriptor(b"abc"), b"abc"))
    with pytest.raises(NotInRegistry, match="NAME_UNKNOWN; correct the name, or push it there"):
        client.repository.manifest("v1")


def test_k8_03_no_proxy_is_read_for_registries_as_it_is_for_clusters(connect: Connect) -> None:
    server = connect(lambda seen: Response(b"abc")).server
    dead = {"HTTP_PROXY": "http://127.0.0.1:1"}
    for environment in ({}, {**dead, "NO_PROXY": "10.0.0.0/8,127.0.0.0/8"}, {"HTTP_PROXY": server.url}):
        with httpx.Client(transport=ProxyTransport(ssl.create_default_context(), environment)) as client:
            assert client.get(server.url).content == b"abc"
    for environment, error in ((dead, httpx.ConnectError), ({"HTTP_PROXY": "ftp://x"}, httpx.ProxyError)):
        client = httpx.Client(transport=ProxyTransport(ssl.create_default_context(), environment))
        with client, pytest.raises(error):
            client.get(server.url)


def test_k8_03_a_proxy_that_stands_in_between_is_named(tmp_path: Path) -> None:
    environment = {"HTTP_PROXY": "http://me:secret@127.0.0.1:1"}
    connection = Connection(
        keychain=Keychain({}), environment=environment, plain_http=frozenset(["10.0.0.1:5000"]), sleep=lambda s: None
    )
    said = r"through the proxy http://127\.0\.0\.1:1\).*add 10\.0\.0\.1 to"
    with Registries(connection) as registries, pytest.raises(NoAnswer, match=said) as caught:
        registries.repository(Reference.parse("10.0.0.1:5000/app")).manifest("v1")
    assert "secret" not in str(caught.value)


class TokenServer:
    """A registry and, at /token, what gives tokens for it: each good for so many requests."""

    def __init__(self, *, uses: int = 1000) -> None:
        self.uses = uses
        self.left: dict[str, int] = {}

    def __call__(self, seen: Seen) -> Response:
        if seen.path == "/token":
            token = f"token-{len(self.left)}"
            self.left[token] = self.uses
            return JSONResponse({"token": token, "expires_in": 60})
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if self.left.get(token, 0) == 0:
            challenge = f'Bearer realm="http://{seen.headers["host"]}/token",service="reg",scope="repository:app:pull"'
            return Response(status_code=401, headers={"WWW-Authenticate": challenge})
        self.left[token] -= 1
        return Response(headers={"Content-Length": "5"})


def test_a_token_is_got_with_the_scopes_and_used_until_it_expires(connect: Connect) -> None:
    client = connect(TokenServer(uses=2), AUTH)
    assert all(client.repository.holds(BLOB) for _ in range(3))
    tokens = [one for one in client.seen if one.path == "/token"]
    assert len(tokens) == 2
    assert parse_qs(tokens[0].query) == {
        "service": ["reg"],
        "scope": ["repository:app:pull,push", "repository:app:pull"],
    }
    assert tokens[0].headers["authorization"] == "Basic dXNlcjpodW50ZXIy"
    assert len(client.seen) == 3 + 2 + 2  # each token was asked for once, after one refusal


def test_an_identity_token_is_changed_for_a_token(connect: Connect) -> None:
    client = connect(TokenServer(), {"auths": {"HOST": {"identitytoken": "id-1"}}})
    assert client.repository.holds(BLOB)
    posted = next(one for one in client.seen if one.path == "/token")
    assert posted.method == "POST"
    assert parse_qs(posted.body.decode())["refresh_token"] == ["id-1"]


def test_a_token_that_is_not_given_is_said(connect: Connect) -> None:
    def answer(seen: Seen) -> Response:
        if seen.path == "/token":
            return JSONResponse({"details": "incorrect username or password"}, 401)
        return TokenServer()(seen)

    with pytest.raises(Denied, match="incorrect username or password"):
        connect(answer, AUTH).repository.holds(BLOB)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"token": "a\\nb"}', b'{"token": ""}', b"[" * 100_000])
def test_what_is_no_token_is_said(connect: Connect, content: bytes) -> None:
    client = connect(lambda seen: Response(content) if seen.path == "/token" else TokenServer()(seen))
    with pytest.raises(Faulty, match="gives no token"):
        client.repository.holds(BLOB)


def test_tokens_that_fail_for_a_while_are_asked_for_again(connect: Connect) -> None:
    server, failures = TokenServer(), [503, 429]

    def answer(seen: Seen) -> Response:
        return Response(status_code=failures.pop()) if seen.path == "/token" and failures else server(seen)

    client = connect(answer)
    assert client.repository.holds(BLOB)
    assert len(client.slept) == 2


def test_credentials_stay_with_their_registry(connect: Connect) -> None:
    content = b"abc"
    elsewhere = connect(lambda seen: Response(content))

    def answer(seen: Seen) -> Response:
        if "authorization" not in seen.headers:
            return Response(status_code=401, headers={"WWW-Authenticate": "Basic"})
        return RedirectResponse(f"http://localhost:{elsewhere.host.rpartition(':')[2]}/blob")

    client = connect(answer, AUTH)
    with client.repository.transport.open(client.repository._reading(_descriptor(content), 0)) as response:
        assert response.read() == content
    assert "authorization" not in elsewhere.seen[0].headers


def test_a_stranger_who_asks_for_credentials_gets_none(connect: Connect) -> None:
    elsewhere = connect(lambda seen: Response(status_code=401, headers={"WWW-Authenticate": "Basic"}))
    there = f"http://localhost:{elsewhere.host.rpartition(':')[2]}/blob"
    client = connect(lambda seen: RedirectResponse(there), AUTH)
    with pytest.raises(Denied):
        list(client.repository.read(_descriptor(b"abc")))
    assert all("authorization" not in one.headers for one in elsewhere.seen)


def _descriptor(content: bytes):  # type: ignore[no-untyped-def]
    from deploy.image.manifest import Descriptor
    from deploy.image.reference import digest_of

    return Descriptor("x", digest_of(content), len(content))


def test_locations_keep_the_scheme_that_works(connect: Connect) -> None:
    transport = connect(lambda seen: Response()).repository.transport
    base = transport.url("app/blobs/uploads/")
    host = transport.registry.partition(":")[0]
    assert transport.resolve("/v2/x?state=1", base) == f"http://{transport.registry}/v2/x?state=1"
    assert transport.resolve(f"https://{host}/v2/x", base) == f"http://{host}/v2/x"
    assert transport.resolve("https://storage.example/x", base) == "https://storage.example/x"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("3", 3),
        (" 10 ", 10),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("soon", None),
        ("-1", None),
        ("9" * 400, 999999),
    ],
)
def test_retry_after_is_read(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, 40) == seconds
