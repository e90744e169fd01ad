import base64
import json
from pathlib import Path

import pytest

from deploy.image.auth import Credentials, Keychain
from deploy.image.errors import CredentialsError


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def keychain(tmp_path: Path, document: object, **variables: str) -> Keychain:
    text = document if isinstance(document, str) else json.dumps(document)
    (tmp_path / "config.json").write_text(text)
    return Keychain({"DOCKER_CONFIG": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", **variables}, 30)


def helper(tmp_path: Path, name: str, script: str) -> None:
    path = tmp_path / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_no_configuration_is_nobody(tmp_path: Path) -> None:
    assert Keychain({"HOME": str(tmp_path)}).find("ghcr.io") is None


def test_the_configuration_is_found_at_home(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {"ghcr.io": {"auth": basic("u", "p")}}}))
    assert Keychain({"HOME": str(tmp_path)}).find("ghcr.io") == Credentials("u", "p")


def test_what_podman_writes_counts_after_what_docker_does(tmp_path: Path) -> None:
    def write(path: Path, user: str, *registries: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"auths": {one: {"auth": basic(user, "p")} for one in registries}}))

    write(tmp_path / ".docker" / "config.json", "docker", "a.io")
    write(tmp_path / "run" / "containers" / "auth.json", "run", "a.io", "b.io", "docker.io")
    write(tmp_path / ".config" / "containers" / "auth.json", "home", "b.io", "c.io")
    write(tmp_path / "named.json", "named", "c.io/team")
    environment = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    for environ, users in (
        (environment, {"a.io": "docker", "b.io": "run", "c.io": "home", "docker.io": "run", "d.io": None}),
        ({"HOME": str(tmp_path)}, {"a.io": "docker", "b.io": "home"}),
        ({**environment, "REGISTRY_AUTH_FILE": str(tmp_path / "named.json")}, {"b.io": None, "c.io": "named"}),
    ):
        for registry, user in users.items():
            assert getattr(Keychain(environ).find(registry), "username", None) == user


@pytest.mark.parametrize(
    "key", ["ghcr.io", "https://ghcr.io", "https://ghcr.io/v1/", "http://ghcr.io/v2/", "ghcr.io/acme"]
)
def test_an_entry_counts_however_its_registry_is_written(tmp_path: Path, key: str) -> None:
    found = keychain(tmp_path, {"auths": {"other.io": {"auth": basic("x", "y")}, key: {"auth": basic("u", "p:q")}}})
    assert found.find("ghcr.io") == Credentials("u", "p:q")
    assert found.find("gh.io") is None


def test_docker_hub_has_a_key_of_its_own(tmp_path: Path) -> None:
    found = keychain(tmp_path, {"auths": {"https://index.docker.io/v1/": {"auth": basic("u", "p")}}})
    assert found.find("docker.io") == Credentials("u", "p")


def test_an_identity_token_and_plain_members_count(tmp_path: Path) -> None:
    found = keychain(
        tmp_path,
        {
            "auths": {
                "a.io": {"auth": basic("00000000", ""), "identitytoken": "t0ken"},
                "b.io": {"username": "u", "password": "p"},
                "c.io": {},
            }
        },
    )
    assert found.find("a.io") == Credentials(identity_token="t0ken")
    assert found.find("b.io") == Credentials("u", "p")
    assert found.find("c.io") is None


def test_a_helper_of_the_registry_goes_before_entries_and_the_store(tmp_path: Path) -> None:
    helper(
        tmp_path,
        "one",
        'read server; echo "{\\"ServerURL\\": \\"$server\\", \\"Username\\": \\"$server\\", \\"Secret\\": \\"s\\"}"',
    )
    helper(tmp_path, "all", 'echo \'{"Username": "<token>", "Secret": "id"}\'')
    document = {
        "auths": {"ghcr.io": {"auth": basic("u", "p")}, "b.io": {"auth": basic("u", "p")}, "c.io": {}},
        "credHelpers": {"ghcr.io": "one"},
        "credsStore": "all",
    }
    found = keychain(tmp_path, document)
    assert found.find("ghcr.io") == Credentials("ghcr.io", "s")
    assert found.find("b.io") == Credentials("u", "p")
    assert found.find("c.io") == Credentials(identity_token="id")


def test_a_helper_that_has_none_is_nobody(tmp_path: Path) -> None:
    helper(tmp_path, "none", "echo 'credentials not found in native keychain'; exit 1")
    assert keychain(tmp_path, {"credsStore": "none"}).find("ghcr.io") is None


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'the vault is sealed' >&2; exit 1", "the vault is sealed"),
        ("echo 'Secret: hunter2'", "is no JSON"),
        ('echo \'{"Username": "u"}\'', "no Username and Secret"),
        ("echo '[]'", "is no JSON object"),
    ],
)
def test_a_helper_that_fails_is_named_and_its_secret_is_not(tmp_path: Path, script: str, says: str) -> None:
    helper(tmp_path, "bad", script)
    with pytest.raises(CredentialsError, match=says) as caught:
        keychain(tmp_path, {"credsStore": "bad"}).find("ghcr.io")
    assert "docker-credential-bad" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_helper_that_hangs_is_given_up(tmp_path: Path) -> None:
    helper(tmp_path, "slow", "exec sleep 60")
    chain = keychain(tmp_path, {"credHelpers": {"ghcr.io": "slow"}})
    chain._helper_within_s = 0.1
    with pytest.raises(CredentialsError, match=r"docker-credential-slow gave nothing for ghcr.io within 0.1 s"):
        chain.find("ghcr.io")


def test_a_helper_that_is_not_there_is_named_with_the_file_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="docker-credential-desktop, which is not on the PATH") as caught:
        keychain(tmp_path, {"credsStore": "desktop"}).find("ghcr.io")
    assert str(tmp_path / "config.json") in str(caught.value)


def test_variables_are_for_the_registry_that_they_name_and_no_other(tmp_path: Path) -> None:
    ours = {"FAAS_REGISTRY": "ghcr.io", "FAAS_REGISTRY_USER": "me", "FAAS_REGISTRY_PASSWORD": "pw"}
    found = keychain(tmp_path, {"auths": {"ghcr.io": {"auth": basic("u", "p")}}}, **ours)
    assert found.find("ghcr.io") == Credentials("me", "pw")
    assert found.find("docker.io") is None
    with pytest.raises(CredentialsError, match="without FAAS_REGISTRY"):
        keychain(tmp_path, {}, FAAS_REGISTRY_USER="me").find("ghcr.io")


def test_a_document_in_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    document = {"auths": {"ghcr.io": {"auth": basic("env", "p")}}}
    found = keychain(
        tmp_path, {"auths": {"ghcr.io": {"auth": basic("u", "p")}, "b.io": {"auth": basic("file", "p")}}},
        DOCKER_AUTH_CONFIG=json.dumps(document),
    )  # fmt: skip
    assert found.find("ghcr.io") == Credentials("env", "p")
    assert found.find("b.io") == Credentials("file", "p")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"auths": 3}',
        '{"auths": {"ghcr.io": {"auth": "%"}}}',
        '{"auths": {"ghcr.io": {"auth": "dQ=="}}}',
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(CredentialsError, match=r"config\.json"):
        keychain(tmp_path, text).find("ghcr.io")


def test_secrets_are_not_shown() -> None:
    shown = repr(Credentials("user", "hunter2", "t0ken"))
    assert "hunter2" not in shown
    assert "t0ken" not in shown
