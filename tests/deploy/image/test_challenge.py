import pytest

from deploy.image.auth import Credentials
from deploy.image.challenge import Challenge, parse, token_of, token_request

BEARER = 'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push"'


def test_a_bearer_challenge_is_taken_apart() -> None:
    found = parse([BEARER])
    assert found is not None
    assert (found.scheme, found.realm) == ("bearer", "https://auth.example/token")
    assert found.parameters["scope"] == "repository:a/b:pull,push"


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        (['Basic realm="x"'], "basic"),
        (["bAsIc"], "basic"),
        (['Basic realm="x"', BEARER], "bearer"),
        (['Bearer realm = "https://a/\\"q\\"" , service=plain'], "bearer"),
    ],
)
def test_bearer_goes_before_basic(headers: list[str], scheme: str) -> None:
    found = parse(headers)
    assert found is not None
    assert found.scheme == scheme


@pytest.mark.parametrize("headers", [[], ["Negotiate"], ["Basically"], [""]])
def test_other_schemes_are_not_answered(headers: list[str]) -> None:
    assert parse(headers) is None


def test_quotes_are_taken_off() -> None:
    found = parse(['Bearer realm="a\\"b",service=plain'])
    assert found is not None
    assert found.parameters == {"realm": 'a"b', "service": "plain"}


def test_a_token_is_asked_for_with_all_scopes_once() -> None:
    challenge = parse([BEARER])
    assert challenge is not None
    asked = token_request(challenge, ["repository:a/b:pull,push", "repository:c:pull"], Credentials("u", "p"))
    assert asked.query == (
        ("service", "registry.example"),
        ("scope", "repository:a/b:pull,push"),
        ("scope", "repository:c:pull"),
    )
    assert asked.authorization == "Basic dTpw"
    assert asked.form is None


def test_an_identity_token_is_posted() -> None:
    asked = token_request(Challenge("bearer", {"realm": "https://a"}), ["s"], Credentials(identity_token="id"))
    assert asked.form is not None
    assert (asked.form["grant_type"], asked.form["refresh_token"], asked.form["scope"]) == ("refresh_token", "id", "s")
    assert asked.authorization is None


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ({"token": "a"}, "a"),
        ({"access_token": "b"}, "b"),
        ({"token": "a\r\nX: y"}, None),
        ({"token": "é"}, None),
        ({"token": 3}, None),
        ({}, None),
        ([], None),
    ],
)
def test_only_what_can_stand_in_a_header_is_a_token(answer: object, token: str | None) -> None:
    assert token_of(answer) == token
