import pytest

from faas.platform.page.access import Access, is_loopback

TOKEN = "a" * 16


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", None),
        ("localhost", None),
        ("LOCALHOST.:8000", None),
        ("box.localhost:8000", None),
        ("[::1]:8000", None),
        ("127.8.8.8", None),
        ("", 403),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("[::2]", 403),
        ("[::1", 403),
    ],
)
def test_on_loopback_the_host_must_be_this_machine(host, status):
    refusal = Access(is_loopback=True).refusal({"host": host})
    assert (refusal and refusal.status) == status


@pytest.mark.parametrize(
    ("authorization", "status"),
    [(f"Bearer {TOKEN}", None), (f"bearer {TOKEN}", None), ("", 401), ("Bearer ", 401), (f"Basic {TOKEN}", 401),
     (f"Bearer {TOKEN}a", 401), ("Bearer ä", 401)],
)  # fmt: skip
@pytest.mark.parametrize("access", [Access(is_loopback=False, token=TOKEN), Access(is_loopback=True, token=TOKEN)])
def test_elsewhere_the_token_opens(access, authorization, status):
    refusal = access.refusal({"host": "box.example", "authorization": authorization})
    assert (refusal and refusal.status) == status


def test_without_a_token_nobody_elsewhere_sees_anything():
    access = Access(is_loopback=False)
    for headers in ({"host": "127.0.0.1"}, {"host": "box.example", "authorization": "Bearer "}):
        assert access.refusal(headers).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_are_refused_whatever_else_they_send(site):
    access = Access(is_loopback=True, token=TOKEN)
    headers = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "sec-fetch-site": site}
    assert access.refusal(headers).status == 403
    assert access.refusal(headers | {"sec-fetch-site": "same-origin"}) is None


def test_the_token_is_in_no_text_of_it():
    assert TOKEN not in repr(Access(is_loopback=False, token=TOKEN))


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("box", False)],
)
def test_which_addresses_are_loopback(address, expected):
    assert is_loopback(address) is expected
