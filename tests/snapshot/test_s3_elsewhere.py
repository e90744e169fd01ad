"""S3 by way of a proxy, in another region, from a server that lacks requests, with credentials that may not list."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import fetching
from snapshot.errors import AccessDeniedError
from snapshot.local_store import LocalStore
from snapshot.ranges import Interrupted, RangeReader
from snapshot.s3_client import S3Client, S3Options
from snapshot.s3_store import S3Store
from tests.s3_server import Answer, Request, Stub, stub

USER = "Basic bWU6cEBzcw=="  # me:p@ss


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "AWS_PROFILE",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    monkeypatch.setattr(fetching, "_FIRST_DELAY_S", 0.001)
    with stub() as running:
        yield running


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    snapshot.freeze({"w": np.arange(1000.0)}, tmp_path / "frozen")
    return tmp_path / "frozen"


def store_at(endpoint: str) -> S3Store:
    return S3Store("s3://bucket/models", S3Options(endpoint_url=endpoint, num_attempts=1))


def pulled(store: S3Store, folder: Path) -> float:
    into = LocalStore(folder)
    stored = store.pull("embed", into=into).finish()
    return float(snapshot.thaw(into.folder(stored)).state["w"].sum())


def test_weights_come_by_the_proxy_that_the_environment_names(
    server: Stub, frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at("http://s3.example.invalid:9000")
    monkeypatch.setenv("http_proxy", server.endpoint.replace("//", "//me:p%40ss@"))
    store.publish("embed", frozen)
    server.requests.clear()
    assert pulled(store, tmp_path / "local") == 499500.0
    assert {request.headers["host"] for request in server.requests} == {"s3.example.invalid:9000"}
    assert {request.headers["proxy-authorization"] for request in server.requests} == {USER}
    assert any(request.range for request in server.requests)


def test_what_needs_no_proxy_is_asked_without(
    server: Stub, frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.invalid:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    store_at(server.endpoint).publish("embed", frozen)
    assert pulled(store_at(server.endpoint), tmp_path / "local") == 499500.0


def test_an_encrypted_range_goes_through_a_tunnel() -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            connection, _ = listening.accept()
            with connection:
                asked.append(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 403 not by me\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        proxy = f"http://me:p%40ss@127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(Interrupted, match="403 not by me"):
            next(RangeReader(proxy_of=lambda url: proxy).pieces("https://bucket.example.invalid/key?a=b", 0, 8))
        thread.join()
    assert asked[0].startswith(b"CONNECT bucket.example.invalid:443 ")
    assert f"Proxy-Authorization: {USER}".encode() in asked[0]


def test_a_range_that_stops_coming_is_interrupted_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def stall() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-7/8\r\nContent-Length: 8\r\n\r\n1234")
                assert ended.wait(20)

        thread = threading.Thread(target=stall)
        thread.start()
        pieces = RangeReader(timeout_s=0.1).pieces(f"http://127.0.0.1:{listening.getsockname()[1]}/key?a=b", 0, 8)
        with pytest.raises(Interrupted, match="timed out"):
            assert b"".join(bytes(piece) for piece in pieces) == b"1234"
        ended.set()
        thread.join()


def of_another_region(request: Request) -> Answer | None:
    """As S3 answers who signs for another region than the bucket's."""
    signed = request.headers.get("authorization", "") + " ".join(request.query.get("X-Amz-Credential", ()))
    if "/eu-west-1/" in signed:
        return None
    there = {"x-amz-bucket-region": "eu-west-1"}
    if request.method == "HEAD":
        return Answer(400, headers=there)
    refusal = Answer.error(400, "AuthorizationHeaderMalformed", "the region is wrong; expecting 'eu-west-1'")
    return Answer(400, refusal.body.replace(b"</Error>", b"<Region>eu-west-1</Region></Error>"), there)


def test_a_bucket_of_another_region_is_read_there(server: Stub, frozen: Path, tmp_path: Path) -> None:
    store_at(server.endpoint).publish("embed", frozen)
    server.rule = of_another_region
    store = store_at(server.endpoint)
    assert pulled(store, tmp_path / "local") == 499500.0
    server.requests.clear()
    assert pulled(store, tmp_path / "another") == 499500.0
    assert all(of_another_region(request) is None for request in server.requests)  # known from here on


def test_signed_addresses_are_at_the_host_of_the_region(server: Stub) -> None:
    client = S3Client("bucket", S3Options(region="eu-west-1"))
    assert client.signed("k").startswith("https://bucket.s3.eu-west-1.amazonaws.com/k?")


def unlisted(server: Stub, request: Request) -> Answer | None:
    """As S3 answers of missing keys to those who may not list."""
    missing = request.method in ("GET", "HEAD") and request.path not in server.objects
    return Answer.error(403, "AccessDenied") if missing else None


def test_who_may_not_list_can_push_and_pull(server: Stub, frozen: Path, tmp_path: Path) -> None:
    server.rule = lambda request: unlisted(server, request)
    store_at(server.endpoint).publish("embed", frozen)
    assert pulled(store_at(server.endpoint), tmp_path / "local") == 499500.0


def test_who_may_not_write_is_told(server: Stub, frozen: Path) -> None:
    server.rule = lambda request: Answer.error(403, "AccessDenied")
    with pytest.raises(AccessDeniedError, match="do not allow it"):
        store_at(server.endpoint).publish("embed", frozen)


@pytest.mark.parametrize("code", ["MissingContentMD5", "NotImplemented"])
def test_a_server_that_cannot_delete_many_is_asked_for_each(server: Stub, code: str) -> None:
    def one_by_one(request: Request) -> Answer | None:
        if request.method == "POST":
            return Answer.error(400, code)
        return Answer(204) if request.method == "DELETE" and server.objects.pop(request.path) else None

    server.objects.update({"/bucket/a": b"1", "/bucket/b": b"2", "/bucket/c": b"3"})
    server.rule = one_by_one
    S3Client("bucket", S3Options(endpoint_url=server.endpoint, num_attempts=1)).delete(["a", "b"])
    assert server.objects == {"/bucket/c": b"3"}


def test_a_refusal_without_a_code_is_told_by_its_status(server: Stub) -> None:
    server.rule = lambda request: Answer(403, b"<html>not by this gateway</html>", {"Content-Type": "text/html"})
    with pytest.raises(AccessDeniedError, match="403"):
        S3Client("bucket", S3Options(endpoint_url=server.endpoint, num_attempts=1)).get("key")


def test_nothing_is_sent_that_other_servers_do_not_know(server: Stub, frozen: Path) -> None:
    store_at(server.endpoint).publish("embed", frozen)
    for request in server.requests:
        assert not [name for name in request.headers if "checksum" in name or "trailer" in name]
        assert request.headers.get("content-encoding") is None
