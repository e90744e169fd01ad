import asyncio

import httpx
import pytest

from faas.errors import SettingError
from faas.platform.gate import Gate, check_token

TOKEN = "0123456789abcdef"


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def asked(headers):
    async def ask():
        transport = httpx.ASGITransport(Gate(app, TOKEN))
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            return await client.get("/", headers=headers)

    return asyncio.run(ask())


def test_the_token_lets_through():
    assert asked([("authorization", f"Bearer {TOKEN}")]).status_code == 204


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", TOKEN)],
        [("authorization", f"Bearer {TOKEN}x")],
        [("authorization", f"Bearer {TOKEN[:-1]}")],
        [("authorization", "Bearer ")],
        [("authorization", f"Basic {TOKEN}")],
        [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")],
    ],
)
def test_nothing_else_does(headers):
    refused = asked(headers)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["status"] == 401
    assert TOKEN not in refused.text


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "0123456789 abcdef", "0123456789abcdé0", "0123456789abcde\n"])
def test_tokens_that_are_easily_guessed_or_cannot_be_sent_are_refused(token):
    with pytest.raises(SettingError, match="16 or more"):
        check_token(token)


def test_a_good_token_is_taken():
    assert check_token(TOKEN) == TOKEN
