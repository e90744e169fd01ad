"""Reaching S3: addresses, endpoints, credentials, and what is said when it does not work."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from snapshot.errors import (
    AccessDeniedError,
    BadAddressError,
    BucketNotFoundError,
    CredentialsError,
    RemoteError,
    UnreachableError,
)
from snapshot.s3_address import S3Address, check_endpoint, is_s3
from snapshot.s3_client import S3Client, S3Options
from tests.s3_server import Answer, Request, S3Server, Stub, rclone, stub

ODD_KEYS = ["a b", "ü/é/日本", "a+b", "100%", "p/%20/q", "a=b&c?d#e", "it's"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone(tmp_path_factory.mktemp("s3"), "bucket", "my.dotted.bucket") as running:
        yield running


@pytest.fixture
def faulty() -> Iterator[Stub]:
    with stub() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


def at(running: Stub, bucket: str = "bucket", attempts: int = 1) -> S3Client:
    return S3Client(bucket, S3Options(endpoint_url=running.endpoint, num_attempts=attempts))


@pytest.mark.parametrize("text", ["s3:/bucket/x", "/tmp/x", "s3://", "s3:///x", "s3://b$d/x", "S3://bucket"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadAddressError, match=r"s3://bucket/prefix"):
        S3Address.parse(text)


@pytest.mark.parametrize(
    "text", ["s3a://bucket/x", "S3://bucket/x", "gs://bucket/x", "https://bucket.host/x", "file:///x"]
)
def test_another_kind_of_address_is_not_taken_for_a_folder(text: str) -> None:
    with pytest.raises(BadAddressError, match=r"neither in S3 nor a folder: give s3://bucket/prefix"):
        is_s3(text)


def test_folders_are_not_in_s3() -> None:
    assert [is_s3(text) for text in ("s3://bucket/x", "x", "/s3://x", "./s3a:/x", "C:/x", "")] == [True] + [False] * 5


def test_an_address_has_a_bucket_and_a_prefix() -> None:
    assert S3Address.parse("s3://bucket//a b/c/") == S3Address("bucket", "a b/c")
    assert S3Address.parse("s3://bucket").key("x", "y") == "x/y"
    assert S3Address.parse("s3://bucket/p").key("x") == "p/x"
    assert S3Address.of_snapshot("s3://bucket/p/NAME") == (S3Address("bucket", "p"), "NAME", None)
    assert S3Address.of_snapshot("s3://bucket/NAME@0123") == (S3Address("bucket"), "NAME", "0123")
    assert str(S3Address.parse("s3://bucket/p/")) == "s3://bucket/p"
    with pytest.raises(BadAddressError, match=r"NAME"):
        S3Address.of_snapshot("s3://bucket")


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_of_any_letters(server: S3Server, key: str, tmp_path: Path) -> None:
    client = S3Client("bucket")
    client.put(key, b"hello")
    assert (server.root / "bucket" / key).read_bytes() == b"hello"
    assert client.get(key) == b"hello"
    assert client.size(key) == 5
    client.delete([key])
    assert client.get(key) is None
    assert client.size(key) is None


def test_large_files_go_in_parts(server: S3Server, tmp_path: Path) -> None:
    content = bytes(range(256)) * 160_000
    (tmp_path / "file").write_bytes(content)
    told: list[int] = []
    S3Client("bucket").upload("large", tmp_path / "file", told.append)
    assert (server.root / "bucket" / "large").read_bytes() == content
    assert sum(told) == len(content)
    assert len(told) > 2


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}"])
@pytest.mark.parametrize("bucket", ["bucket", "my.dotted.bucket"])
def test_s3_06_own_endpoints_are_asked_by_path(server: S3Server, host: str, bucket: str) -> None:
    endpoint = "http://" + host.format(port=server.endpoint.rpartition(":")[2])
    client = S3Client(bucket, S3Options(endpoint_url=endpoint))
    client.put("key", b"1")
    assert client.get("key") == b"1"
    assert client.signed("key").startswith(f"{endpoint}/{bucket}/key?")


def test_s3_06_an_endpoint_from_the_environment_is_asked_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, f"http://{name.lower().replace('_', '-')}.invalid:9000")
        assert (
            S3Client("bucket").signed("k").startswith(f"http://{name.lower().replace('_', '-')}.invalid:9000/bucket/k?")
        )
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert S3Client("bucket").signed("k").startswith("https://bucket.s3.amazonaws.com/k?")
    assert "amazonaws.com/my.dotted.bucket/k?" in S3Client("my.dotted.bucket").signed("k")


@pytest.mark.parametrize("endpoint", ["http://bkt.host", "https://bkt.host:9000/", "http://host/bkt"])
def test_s3_06_an_endpoint_with_the_bucket_in_it_is_told(endpoint: str) -> None:
    with pytest.raises(BadAddressError, match=r"has the bucket 'bkt' in it.*give https?://host"):
        S3Client("bkt", S3Options(endpoint_url=endpoint)).signed("key")


@pytest.mark.parametrize("endpoint", ["host:9000", "ftp://host", "http://"])
def test_an_endpoint_that_is_none_is_told(endpoint: str) -> None:
    with pytest.raises(BadAddressError, match=r"endpoint"):
        check_endpoint(endpoint, "bkt")


def test_s3_06_no_region_and_no_credentials_is_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    begun = monotonic()
    with pytest.raises(CredentialsError, match=r"^s3://bucket/key: no credentials .*AWS_ACCESS_KEY_ID"):
        S3Client("bucket").get("key")
    assert monotonic() - begun < 3


def test_wrong_keys_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(CredentialsError, match=r"^s3://bucket/key: the credentials are wrong"):
        S3Client("bucket").get("key")


def test_a_bucket_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    for ask in (
        lambda client: client.get("key"),
        lambda client: client.put("key", b""),
        lambda client: client.folders(""),
        lambda client: client.upload("key", tmp_path / "file", lambda _: None),
    ):
        with pytest.raises(BucketNotFoundError, match=r"^s3://absent.*no such bucket"):
            ask(S3Client("absent"))


def test_a_refusal_is_told_with_the_key(faulty: Stub) -> None:
    faulty.rule = lambda request: Answer.error(403, "AccessDenied", "not yours")
    for ask in (S3Client.get, S3Client.size, S3Client.folders):
        with pytest.raises(AccessDeniedError, match=r"^s3://bucket/key: .*AccessDenied: not yours"):
            ask(at(faulty), "key")


def test_an_unknown_refusal_is_told_as_it_is(faulty: Stub) -> None:
    faulty.rule = lambda request: Answer.error(409, "OddError", "as never seen")
    with pytest.raises(RemoteError, match=r"s3://bucket/key: .*OddError: as never seen"):
        at(faulty).get("key")


def test_a_server_that_fails_for_a_while_is_tried_again(faulty: Stub) -> None:
    faulty.objects["/bucket/key"] = b"there"
    faulty.rule = lambda request: Answer.error(503, "SlowDown") if len(faulty.requests) < 3 else None
    assert at(faulty, attempts=3).get("key") == b"there"
    assert len(faulty.requests) == 3


def test_a_server_that_fails_for_ever_is_told(faulty: Stub) -> None:
    faulty.rule = lambda request: Answer.error(500, "InternalError")
    with pytest.raises(UnreachableError, match=r"s3://bucket/key: .*InternalError"):
        at(faulty, attempts=2).get("key")
    assert len(faulty.requests) == 2


def test_no_server_is_told() -> None:
    with pytest.raises(UnreachableError, match=r"127.0.0.1:9 does not answer"):
        S3Client("bucket", S3Options(endpoint_url="http://127.0.0.1:9", num_attempts=1)).get("key")


def credentials(path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    path.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = x\naws_session_token = t\n")


def only_b(request: Request) -> Answer | None:
    return Answer.error(400, "ExpiredToken", "has expired") if request.access_key == "KEY-A" else None


def test_s3_04_expired_keys_are_looked_up_anew(faulty: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials(tmp_path / "credentials", "KEY-A", monkeypatch)
    faulty.objects["/bucket/key"] = b"1"
    client = at(faulty, attempts=4)
    assert client.get("key") == b"1"
    faulty.rule = only_b
    credentials(tmp_path / "credentials", "KEY-B", monkeypatch)
    assert client.get("key") == b"1"
    assert client.size("key") == 1
    assert [request.access_key for request in faulty.requests] == ["KEY-A", "KEY-A", "KEY-B", "KEY-B"]


def test_s3_04_keys_that_stay_expired_are_tried_once_more_and_told(
    faulty: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(tmp_path / "credentials", "KEY-A", monkeypatch)
    faulty.rule = only_b
    with pytest.raises(CredentialsError, match=r"s3://bucket/key: .*no longer, valid .*ExpiredToken: has expired"):
        at(faulty, attempts=4).get("key")
    assert len(faulty.requests) == 2


def test_an_answer_that_ends_too_soon_is_asked_for_again(faulty: Stub) -> None:
    faulty.objects["/bucket/key"] = b"whole"
    faulty.rule = lambda request: Answer(body=b"whole", cut=2) if len(faulty.requests) < 3 else None
    assert at(faulty, attempts=3).get("key") == b"whole"
    assert len(faulty.requests) == 3


def test_an_answer_that_never_ends_as_it_should_is_an_error_of_the_server(faulty: Stub) -> None:
    faulty.rule = lambda request: Answer(body=b"whole", cut=2)
    with pytest.raises(UnreachableError, match="ends its answer too soon"):
        at(faulty, attempts=2).get("key")
    assert len(faulty.requests) == 2


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("code", ["", "PermanentRedirect"])
def test_a_server_that_sends_elsewhere_is_told_once(faulty: Stub, status: int, code: str) -> None:
    answer = Answer.error(status, code) if code else Answer(status)
    faulty.rule = lambda request: Answer(answer.status, answer.body, {"Location": "https://s3.example.com/there"})
    for ask in (lambda: at(faulty).get("key"), lambda: at(faulty).size("key"), lambda: at(faulty).put("key", b"1")):
        faulty.requests.clear()
        with pytest.raises(RemoteError, match=r"s3\.example\.com/there.*give the endpoint that answers itself"):
            ask()
        assert len(faulty.requests) < 6


def listing(request: Request) -> Answer | None:
    """Two keys, one on each page; the second is not to be had where the prefix says so."""
    if "list-type" not in request.query:
        return None
    goes_on = "continuation-token" not in request.query
    token = "<NextContinuationToken>1</NextContinuationToken>" if "well/" in request.query["prefix"] else ""
    body = f"<IsTruncated>{str(goes_on).lower()}</IsTruncated>{token if goes_on else ''}"
    body += f"<CommonPrefixes><Prefix>{request.query['prefix'][0]}{'a' if goes_on else 'b'}/</Prefix></CommonPrefixes>"
    return Answer(body=f"<ListBucketResult>{body}</ListBucketResult>".encode(), headers={"Content-Type": "text/xml"})


def test_a_list_is_read_to_its_last_page_and_a_part_is_never_taken_for_all(faulty: Stub) -> None:
    faulty.rule = listing
    assert at(faulty).folders("well/") == ["a", "b"]
    with pytest.raises(RemoteError, match=r"s3://bucket/ill/: .*does not say how to go on"):
        at(faulty).folders("ill/")


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        ("InvalidObjectState", RemoteError, "archived.*restore it first"),
        ("RequestTimeTooSkewed", RemoteError, "set this machine's clock"),
        ("SecondLevelDomainForbidden", BadAddressError, "AWS_S3_ADDRESSING_STYLE=virtual"),
    ],
)
def test_what_can_be_done_is_told(faulty: Stub, code: str, error: type[Exception], said: str) -> None:
    faulty.rule = lambda request: Answer.error(403, code)
    with pytest.raises(error, match=f"s3://bucket/key: .*{said}"):
        at(faulty).get("key")


@pytest.mark.parametrize(
    ("style", "endpoint", "address"),
    [
        ("virtual", "http://oss.example.com", "http://bucket.oss.example.com/k?"),
        ("path", "http://oss.example.com", "http://oss.example.com/bucket/k?"),
        ("auto", "http://oss.example.com", "http://oss.example.com/bucket/k?"),
        ("path", "http://bucket.bucket.svc:9000", "http://bucket.bucket.svc:9000/bucket/k?"),
        ("path", None, "https://s3.amazonaws.com/bucket/k?"),
        ("virtual", None, "https://bucket.s3.amazonaws.com/k?"),
    ],
)
@pytest.mark.parametrize("by", ["environment", "file"])
def test_s3_06_buckets_are_addressed_as_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str, endpoint: str | None, address: str, by: str
) -> None:
    if by == "environment":
        monkeypatch.setenv("AWS_S3_ADDRESSING_STYLE", style)
    else:
        (tmp_path / "config").write_text(f"[default]\ns3 =\n    addressing_style = {style}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert S3Client("bucket", S3Options(endpoint_url=endpoint)).signed("k").startswith(address)


def test_s3_06_a_style_that_there_is_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ADDRESSING_STYLE", "vhost")
    with pytest.raises(BadAddressError, match="'vhost': AWS_S3_ADDRESSING_STYLE is path or virtual"):
        S3Client("bucket").signed("k")


def test_what_anybody_may_read_is_read_without_credentials(faulty: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    faulty.objects["/bucket/key"] = b"content"
    with pytest.raises(CredentialsError, match="AWS_NO_SIGN_REQUEST=true"):
        at(faulty).get("key")
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "YES")
    assert at(faulty).get("key") == b"content"
    assert at(faulty).signed("key") == f"{faulty.endpoint}/bucket/key"
    assert [request.headers.get("authorization") for request in faulty.requests] == [None]
    faulty.rule = lambda request: Answer.error(403, "AccessDenied")
    with pytest.raises(AccessDeniedError):
        at(faulty).get("key")
