import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.image.errors import BadReference
from deploy.image.reference import Reference, api_host, is_loopback

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "registry", "repository", "target"),
    [
        ("python", "docker.io", "library/python", "latest"),
        ("python:3.11-slim", "docker.io", "library/python", "3.11-slim"),
        ("acme/embed", "docker.io", "acme/embed", "latest"),
        ("docker.io/python", "docker.io", "library/python", "latest"),
        ("index.docker.io/acme/embed:1", "docker.io", "acme/embed", "1"),
        ("ghcr.io/acme/embed:v1.2_x", "ghcr.io", "acme/embed", "v1.2_x"),
        ("localhost/embed", "localhost", "embed", "latest"),
        ("localhost:5000/embed:2", "localhost:5000", "embed", "2"),
        ("[::1]:5000/a/b/c", "[::1]:5000", "a/b/c", "latest"),
        (f"registry.example:443/e@{DIGEST}", "registry.example:443", "e", DIGEST),
        (f"registry.example/e:1@{DIGEST}", "registry.example", "e", DIGEST),
        ("a.b/x__y/z--w.v_u", "a.b", "x__y/z--w.v_u", "latest"),
    ],
)
def test_a_reference_is_taken_apart(text: str, registry: str, repository: str, target: str) -> None:
    found = Reference.parse(text)
    assert (found.registry, found.repository, found.target) == (registry, repository, target)
    assert Reference.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "/",
        "@",
        "Python",
        "ghcr.io/Acme/embed",
        "ghcr.io/",
        "ghcr.io//embed",
        "ghcr.io/embed/",
        "ghcr.io/a..b",
        "ghcr.io/../etc",
        "ghcr.io/a:b:c",
        "ghcr.io/a:",
        "ghcr.io/a:-x",
        "ghcr.io/a:" + "x" * 129,
        "ghcr.io/a@sha256:abc",
        "ghcr.io/a@sha512:" + "0" * 128,
        "ghcr.io/a@" + DIGEST.upper(),
        "ghcr.io/a b",
        "ghcr.io/a\n",
        "user:pass@ghcr.io/a",
        "https://ghcr.io/a",
        "ghcr.io:x/a",
        "ghcr.io/" + "a" * 256,
        "ghcr.io/a?x",
        "ghcr.io/a%2fb",
    ],
)
def test_what_names_no_image_is_refused(text: str) -> None:
    with pytest.raises(BadReference) as caught:
        Reference.parse(text)
    assert caught.value.remedy


@given(st.text(max_size=40))
def test_any_text_is_an_image_that_is_written_the_same_or_is_refused(text: str) -> None:
    try:
        found = Reference.parse(text)
    except BadReference:
        return
    assert Reference.parse(str(found)) == found


def test_one_state_of_a_repository_has_no_tag() -> None:
    assert str(Reference.parse("ghcr.io/a:1").at(DIGEST)) == f"ghcr.io/a@{DIGEST}"


def test_docker_hub_answers_under_another_name() -> None:
    assert api_host("docker.io") == "registry-1.docker.io"
    assert api_host("ghcr.io") == "ghcr.io"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.9.1", "[::1]:80", "x.localhost"]
)
def test_what_is_on_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["ghcr.io", "10.0.0.1:5000", "localhost.example", "[2001:db8::1]:5000"])
def test_what_is_elsewhere_is_not_taken_for_this_machine(host: str) -> None:
    assert not is_loopback(host)
