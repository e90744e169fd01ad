import json
from typing import Any

import pytest

from deploy.image.errors import BadImage, BadReference, WrongPlatform
from deploy.image.manifest import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_INDEX,
    OCI_LAYER,
    OCI_MANIFEST,
    Image,
    Manifest,
    Platform,
    media_type_of,
    pick,
)

DIGEST = "sha256:" + "0123456789abcdef" * 4


def descriptor(**changed: Any) -> dict[str, Any]:
    return {"mediaType": OCI_LAYER, "digest": DIGEST, "size": 10, **changed}


def manifest(**changed: Any) -> bytes:
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": descriptor(mediaType=OCI_CONFIG),
        "layers": [descriptor()],
        **changed,
    }
    return json.dumps(document).encode()


def test_a_manifest_is_read() -> None:
    found = Manifest.of(manifest(), OCI_MANIFEST, "x")
    assert (found.config.media_type, found.layers[0].size_bytes) == (OCI_CONFIG, 10)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        manifest(config=None),
        manifest(layers=None),
        manifest(layers={}),
        manifest(layers=[3]),
        manifest(layers=[descriptor()] * 2000),
        manifest(layers=[descriptor(size=-1)]),
        manifest(layers=[descriptor(size=1 << 60)]),
        manifest(layers=[descriptor(size="10")]),
        manifest(layers=[descriptor(size=True)]),
        manifest(layers=[descriptor(size=1.5)]),
        manifest(layers=[descriptor(digest="sha256:../../../etc/passwd")]),
        manifest(layers=[descriptor(digest="sha512:" + "0" * 128)]),
        manifest(layers=[descriptor(digest=None)]),
        manifest(layers=[descriptor(mediaType=7)]),
        manifest(config=descriptor(mediaType="application/vnd.cncf.helm.config.v1+json")),
    ],
)
def test_a_hostile_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(BadImage, match="registry/image is no image that can be used"):
        Manifest.of(content, OCI_MANIFEST, "registry/image")


def config(**changed: Any) -> bytes:
    document = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [DIGEST]}, **changed}
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        config(rootfs=None),
        config(rootfs={"diff_ids": []}),
        config(rootfs={"diff_ids": [DIGEST, DIGEST]}),
        config(rootfs={"diff_ids": ["no"]}),
        config(rootfs={"diff_ids": DIGEST}),
        config(config=[]),
        config(history={}),
    ],
)
def test_a_hostile_configuration_is_refused(content: bytes) -> None:
    with pytest.raises(BadImage):
        Image.of(Manifest.of(manifest(), OCI_MANIFEST, "x"), content, "x")


def test_an_image_for_another_machine_is_refused() -> None:
    image = Image.of(Manifest.of(manifest(), OCI_MANIFEST, "x"), config(architecture="arm64"), "x")
    image.check_platform(Platform("linux", "arm64", "v8"), "x")
    with pytest.raises(WrongPlatform, match="x is for linux/arm64 and not linux/amd64"):
        image.check_platform(Platform(), "x")


@pytest.mark.parametrize("media_type", [OCI_INDEX, DOCKER_LIST])
def test_an_index_has_an_image_for_each_machine(media_type: str) -> None:
    entries = [
        descriptor(mediaType=OCI_MANIFEST, platform={"os": "unknown", "architecture": "unknown"}),  # an attestation
        descriptor(mediaType=OCI_MANIFEST, platform={"os": "linux", "architecture": "arm64", "variant": "v8"}),
        descriptor(mediaType=DOCKER_MANIFEST, size=11, platform={"os": "linux", "architecture": "amd64"}),
        descriptor(mediaType="application/x-other", platform={"os": "linux", "architecture": "s390x"}),
        descriptor(mediaType=OCI_MANIFEST),
    ]
    content = json.dumps({"mediaType": media_type, "manifests": entries}).encode()
    assert pick(content, Platform(), "x").size_bytes == 11
    assert pick(content, Platform("linux", "arm64", "v8"), "x").size_bytes == 10
    with pytest.raises(WrongPlatform, match="it has: linux/amd64, linux/arm64"):
        pick(content, Platform("linux", "s390x"), "x")
    assert pick(content, None, "x").size_bytes == 11, "of several, the usual one"
    of_one_machine = json.dumps({"manifests": entries[:2]}).encode()
    assert pick(of_one_machine, None, "x").size_bytes == 10


def test_the_only_image_of_an_index_need_not_say_what_it_is_for() -> None:
    """Its configuration does, and is compared with what is asked for."""
    attestation = descriptor(mediaType=OCI_MANIFEST, platform={"os": "unknown", "architecture": "unknown"})
    content = json.dumps({"manifests": [attestation, descriptor(mediaType=OCI_MANIFEST, size=11)]}).encode()
    for platform in (None, Platform(), Platform("linux", "arm64")):
        assert pick(content, platform, "x").size_bytes == 11


@pytest.mark.parametrize("manifests", [None, {}, [3], [{"mediaType": OCI_MANIFEST}]])
def test_a_hostile_index_is_refused(manifests: Any) -> None:
    with pytest.raises(BadImage):
        pick(json.dumps({"manifests": manifests}).encode(), Platform(), "x")


def test_the_type_that_a_manifest_states_goes_before_the_headers() -> None:
    assert media_type_of(manifest(), "text/plain", "x") == OCI_MANIFEST
    assert media_type_of(b"{}", f"{DOCKER_MANIFEST}; charset=utf-8", "x") == DOCKER_MANIFEST
    with pytest.raises(BadImage, match="first form"):
        media_type_of(b'{"schemaVersion": 1}', "", "x")


def test_a_platform_is_read() -> None:
    assert str(Platform.parse("linux/arm64/v8")) == "linux/arm64/v8"
    for text in ("linux", "linux/", "/amd64", "linux/amd64/a/b", "Linux/AMD64"):
        with pytest.raises(BadReference):
            Platform.parse(text)
