"""Reading from registries that keep to the protocol, and from some that do not."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from starlette.responses import Response

from deploy.image.auth import Keychain
from deploy.image.compose import scratch
from deploy.image.connection import Connection
from deploy.image.errors import BadImage, Faulty, NoAnswer, WrongContent, WrongPlatform
from deploy.image.manifest import MAX_BYTES, OCI_INDEX, OCI_MANIFEST, Descriptor, Image, Platform
from deploy.image.reference import Reference, digest_of
from deploy.image.registry import Registries, Repository
from tests.served import Seen, serving

CONTENT = bytes(range(256)) * 20_000
BLOB = Descriptor("x", digest_of(CONTENT), len(CONTENT))


@contextmanager
def repository(answer: Callable[[Seen], Response]) -> Iterator[Repository]:
    async def answered(seen: Seen) -> Response:
        return answer(seen)

    with ExitStack() as stack:
        server = stack.enter_context(serving(answered))
        connection = Connection(keychain=Keychain({}), sleep=lambda seconds: None)
        registries = stack.enter_context(Registries(connection))
        yield registries.repository(Reference.parse(f"{server.url.removeprefix('http://')}/app"))


def holding(image: Image, *, stated: str | None = None, other: dict[str, Response] | None = None):  # type: ignore[no-untyped-def]
    """A registry with one image, at each tag and digest."""

    def answer(seen: Seen) -> Response:
        for end, response in (other or {}).items():
            if seen.path.endswith(end):
                return response
        if "/manifests/" in seen.path:
            headers = {"Docker-Content-Digest": stated} if stated else {}
            return Response(image.manifest.content, media_type=image.manifest.media_type, headers=headers)
        return Response(image.config_content)

    return answer


def read(found: Repository, platform: Platform | None = None) -> Image:
    return found.image(Reference.parse(f"{found.where}:v1"), platform or Platform())


def test_an_image_is_read() -> None:
    image = scratch(Platform())
    with repository(holding(image, stated=digest_of(image.manifest.content))) as found:
        assert read(found).manifest.content == image.manifest.content


def test_a_manifest_that_is_not_its_digests_is_refused() -> None:
    image = scratch(Platform())
    with repository(holding(image, stated="sha256:" + "0" * 64)) as found, pytest.raises(WrongContent):
        read(found)
    with repository(holding(image)) as found, pytest.raises(WrongContent):
        found.manifest("sha256:" + "1" * 64)


def test_the_image_for_the_machine_is_taken_from_an_index() -> None:
    image = scratch(Platform("linux", "arm64"))
    digest = digest_of(image.manifest.content)
    entry = {"mediaType": OCI_MANIFEST, "digest": digest, "size": len(image.manifest.content)}
    index = {"mediaType": OCI_INDEX, "manifests": [{**entry, "platform": {"os": "linux", "architecture": "arm64"}}]}
    other = {"/manifests/v1": Response(json.dumps(index).encode(), media_type=OCI_INDEX)}
    with repository(holding(image, other=other)) as found:
        assert read(found, Platform("linux", "arm64")).config["architecture"] == "arm64"
        with pytest.raises(WrongPlatform, match="it has: linux/arm64"):
            read(found)


def test_an_index_of_indexes_without_end_is_refused() -> None:
    entry = {"mediaType": OCI_MANIFEST, "size": 10, "platform": {"os": "linux", "architecture": "amd64"}}
    index = {"mediaType": OCI_INDEX, "manifests": [{**entry, "digest": "sha256:" + "0" * 64}]}
    content = json.dumps(index).encode()
    index["manifests"][0]["digest"] = digest_of(content)  # type: ignore[index]

    def answer(seen: Seen) -> Response:
        return Response(content, media_type=OCI_INDEX)

    with repository(answer) as found, pytest.raises(BadImage):
        read(found)


def test_a_manifest_without_end_is_refused() -> None:
    with repository(lambda seen: Response(b" " * (MAX_BYTES + 1))) as found, pytest.raises(Faulty, match="is over"):
        found.manifest("v1")


def test_a_configuration_of_terabytes_is_not_read() -> None:
    image = scratch(Platform())
    document = {**image.manifest.document, "config": {**image.manifest.document["config"], "size": 1 << 42}}
    other = {"/manifests/v1": Response(json.dumps(document).encode(), media_type=OCI_MANIFEST)}
    with repository(holding(image, other=other)) as found, pytest.raises(WrongContent, match="a configuration of"):
        read(found)


def test_a_blob_is_saved_whole(tmp_path: Path) -> None:
    told: list[int] = []
    with repository(lambda seen: Response(CONTENT)) as found:
        found.save(BLOB, tmp_path / "blob", told.append)
    assert (tmp_path / "blob").read_bytes() == CONTENT
    assert told[-1] == len(CONTENT)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (CONTENT[:-1] + b"x", "has another content"),
        (CONTENT[:-1], "ends after 5119999 of 5120000 bytes"),
        (CONTENT + b"x", "is longer"),
        (b"", "ends after 0 of"),
    ],
)
def test_a_blob_that_is_not_its_digests_is_not_kept(tmp_path: Path, sent: bytes, says: str) -> None:
    with repository(lambda seen: Response(sent)) as found, pytest.raises(WrongContent, match=says):
        found.save(BLOB, tmp_path / "blob")
    assert not list(tmp_path.iterdir())


def test_an_empty_blob_is_read() -> None:
    with repository(lambda seen: Response(b"")) as found:
        assert list(found.read(Descriptor("x", digest_of(b""), 0))) == []


@pytest.mark.parametrize("ranges", [True, False])
def test_a_blob_is_read_on_where_the_connection_broke(tmp_path: Path, ranges: bool) -> None:
    """Cut twice; a server that knows no ranges sends all again, and what is known already is left out."""
    asked: list[str | None] = []

    def answer(seen: Seen) -> Response:
        asked.append(seen.headers.get("range"))
        begin = int(seen.headers["range"][6:-1]) if ranges and "range" in seen.headers else 0
        if len(asked) <= 2:
            return _Cut(CONTENT[begin:], at=(begin + 1_500_000 * len(asked)) - begin, status=206 if begin else 200)
        return Response(CONTENT[begin:], 206 if begin else 200)

    with repository(answer) as found:
        found.save(BLOB, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == CONTENT
    assert len(asked) == 3
    assert asked[0] is None
    assert asked[1] is not None


def test_a_blob_that_always_breaks_is_given_up(tmp_path: Path) -> None:
    with repository(lambda seen: _Cut(CONTENT, at=0, status=200)) as found, pytest.raises(NoAnswer):
        found.save(BLOB, tmp_path / "blob")
    assert not list(tmp_path.iterdir())


class _Cut(Response):
    """Says that all of it comes, and breaks off."""

    def __init__(self, content: bytes, at: int, status: int) -> None:
        super().__init__(content, status)
        self._at = at

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if self._at:
            await send({"type": "http.response.body", "body": self.body[: self._at], "more_body": True})
