"""Uploads that are taken up, to a stand-in whose sessions live as the specification says: it keeps what came."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.responses import Response

from deploy.image.auth import Keychain
from deploy.image.connection import Connection
from deploy.image.errors import Faulty, NotAccepted
from deploy.image.manifest import Descriptor
from deploy.image.reference import Reference, digest_of
from deploy.image.registry import Registries, Repository
from deploy.image.upload import Blob, upload
from tests import registry_server
from tests.registry_server import Fault, Proxy
from tests.served import Seen, serving

CONTENT = bytes(range(256)) * 4000


class StandIn:
    """Sessions and blobs of one repository; `patched` may answer a PATCH in its place.

    What has a body of more than `most_bytes` is answered `too_large`.
    """

    def __init__(self) -> None:
        self.session = b""
        self.blobs: dict[str, bytes] = {}
        self.patched: Callable[[Seen], Response | None] = lambda seen: None
        self.most_bytes = {"PATCH": 1 << 30, "PUT": 1 << 30}
        self.too_large = 413

    async def answer(self, seen: Seen) -> Response:
        if len(seen.body) > self.most_bytes.get(seen.method, 0):
            return Response("quota", self.too_large)
        if seen.method == "POST":
            self.session = b""
            return self._session(202)
        if seen.method == "PATCH":
            ruled = self.patched(seen)
            if ruled is not None:
                return ruled
            begin = int(seen.headers["content-range"].partition("-")[0])
            if begin != len(self.session):
                return Response(status_code=416)
            self.session += seen.body
            return self._session(202)
        if seen.method == "PUT":
            content = self.session + seen.body
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            if digest not in seen.query.replace("%3A", ":"):
                return Response(status_code=400)
            self.blobs[digest] = content
            return Response(status_code=201)
        if "/uploads/" in seen.path:
            return self._session(204)
        content = self.blobs.get(seen.path.rpartition("/")[2], b"")
        return Response(headers={"Content-Length": str(len(content))}) if content else Response(status_code=404)

    def _session(self, status: int) -> Response:
        last = max(len(self.session) - 1, 0)
        return Response(status_code=status, headers={"Location": "/v2/app/blobs/uploads/1", "Range": f"0-{last}"})


@pytest.fixture
def served() -> Iterator[tuple[StandIn, Proxy, Repository]]:
    stand_in = StandIn()
    with ExitStack() as stack:
        server = stack.enter_context(serving(stand_in.answer))
        proxy = stack.enter_context(registry_server.proxy(server.url.removeprefix("http://")))
        connection = Connection(keychain=Keychain({}), sleep=lambda seconds: None)
        registries = stack.enter_context(Registries(connection))
        yield stand_in, proxy, registries.repository(Reference.parse(f"{proxy.host}/app"), push=True)


def send(repository: Repository, tmp_path: Path, content: bytes = CONTENT, part_bytes: int = 300_000) -> None:
    (tmp_path / "blob").write_bytes(content)
    blob = Blob(Descriptor("x", digest_of(content), len(content)), tmp_path / "blob")
    upload(repository, blob, part_bytes=part_bytes)


def sizes(proxy: Proxy, method: str) -> list[int]:
    return [one.num_bytes for one in proxy.seen if one.method == method and one.num_bytes]


def test_a_part_whose_answer_was_lost_is_not_sent_again(
    served: tuple[StandIn, Proxy, Repository], tmp_path: Path
) -> None:
    stand_in, proxy, repository = served
    left = [Fault(mute=True)]
    proxy.rule = lambda seen: (
        left.pop() if left and seen.headers.get("content-range", "").startswith("300000-") else None
    )
    send(repository, tmp_path)
    assert stand_in.blobs == {digest_of(CONTENT): CONTENT}
    assert proxy.blob_bytes == len(CONTENT)


def test_of_a_part_that_was_taken_in_part_the_rest_is_sent(
    served: tuple[StandIn, Proxy, Repository], tmp_path: Path
) -> None:
    stand_in, proxy, repository = served
    taken: list[str] = []

    def some_of_it(seen: Seen) -> Response | None:
        if taken or not seen.headers["content-range"].startswith("300000-"):
            return None
        taken.append(seen.headers["content-range"])
        stand_in.session += seen.body[:100_000]
        return Response(status_code=503)

    stand_in.patched = some_of_it
    send(repository, tmp_path)
    assert stand_in.blobs == {digest_of(CONTENT): CONTENT}
    ranges = [one.headers["content-range"] for one in proxy.seen if one.method == "PATCH"]
    assert ranges == ["0-299999", "300000-599999", "400000-699999", "700000-999999", "1000000-1023999"]


@pytest.mark.parametrize("status", [202, 204])
def test_a_registry_that_takes_nothing_is_given_up(
    served: tuple[StandIn, Proxy, Repository], tmp_path: Path, status: int
) -> None:
    stand_in, _, repository = served
    stand_in.patched = lambda seen: Response(status_code=status, headers={"Range": "0-0"})
    with pytest.raises(Faulty, match="takes nothing beyond byte 0"):
        send(repository, tmp_path)


def test_a_session_that_is_forgotten_is_begun_again(served: tuple[StandIn, Proxy, Repository], tmp_path: Path) -> None:
    stand_in, proxy, repository = served
    left = [Fault(status=404)]
    proxy.rule = lambda seen: left.pop() if left and seen.headers.get("content-range", "").startswith("6") else None
    send(repository, tmp_path)
    assert stand_in.blobs == {digest_of(CONTENT): CONTENT}
    assert [one.method for one in proxy.seen].count("POST") == 2


def test_an_upload_that_is_refused_is_said(served: tuple[StandIn, Proxy, Repository], tmp_path: Path) -> None:
    stand_in, proxy, repository = served
    stand_in.most_bytes = {"PATCH": 100_000, "PUT": 100_000}
    with pytest.raises(NotAccepted, match="answered 413 quota"):
        send(repository, tmp_path)
    assert (sizes(proxy, "PATCH"), sizes(proxy, "PUT")) == ([300_000], [len(CONTENT)])


@pytest.mark.parametrize("status", [413, 416])
def test_a_registry_that_takes_small_parts_alone_gets_those(
    served: tuple[StandIn, Proxy, Repository], tmp_path: Path, status: int
) -> None:
    """GitHub's takes no part of more than 4 MiB, and calls that a wrong range."""
    stand_in, proxy, repository = served
    stand_in.most_bytes, stand_in.too_large = {"PATCH": 2 << 20, "PUT": 1 << 30}, status
    content = CONTENT * 4
    send(repository, tmp_path, content, part_bytes=8 << 18)
    assert sizes(proxy, "PATCH") == [8 << 18, len(content) - (8 << 18)], "as long as it takes them"
    proxy.seen.clear()
    send(repository, tmp_path, content, part_bytes=(8 << 18) + 4)
    assert stand_in.blobs == {digest_of(content): content}
    assert sizes(proxy, "PATCH") == [(8 << 18) + 4]
    assert sizes(proxy, "PUT") == [len(content)], "parts of half a MiB are no way to send it"
    proxy.seen.clear()
    send(repository, tmp_path, CONTENT * 6, part_bytes=5 << 20)
    assert sizes(proxy, "PATCH") == [5 << 20, *[5 << 18] * 4, len(CONTENT) * 6 - (5 << 20)]
    assert stand_in.blobs[digest_of(CONTENT * 6)] == CONTENT * 6


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("said", ["0-299999", "0-123999"])
def test_a_registry_that_does_not_say_how_far_it_has_come_is_believed_to_have_come(
    served: tuple[StandIn, Proxy, Repository], tmp_path: Path, said: str, is_lost: bool
) -> None:
    """Amazon's says of each part what it said of the first, Aliyun's how long the part was."""
    stand_in, proxy, repository = served

    def patched(seen: Seen) -> Response:
        if not (is_lost and seen.headers["content-range"].startswith("600000-")):
            stand_in.session += seen.body
        at_first = seen.headers["content-range"].startswith("0-")
        return Response(status_code=202, headers={"Range": "0-299999" if at_first else said})

    stand_in.patched = patched
    send(repository, tmp_path)
    assert stand_in.blobs == {digest_of(CONTENT): CONTENT}
    assert sizes(proxy, "PATCH") == [300_000, 300_000, 300_000, len(CONTENT) - 900_000]
    assert sizes(proxy, "PUT") == ([len(CONTENT)] if is_lost else []), "what the digest finds wrong is sent as one"
