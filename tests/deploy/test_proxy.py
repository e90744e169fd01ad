"""K8-03: which hosts are reached directly, decided by our own rule."""

import pytest

from deploy.proxy import bypasses, choose, headers, without_password

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("https://127.0.0.1:6443", "127.0.0.1", True),
        ("https://127.0.0.1:6443", "127.0.0.0/8", True),
        ("https://127.0.0.1:6443", "localhost,127.0.0.1", True),
        ("https://127.0.0.1:6443", "localhost 127.0.0.1", True),
        ("https://127.0.0.1:6443", "*", True),
        ("https://127.0.0.1:6443", "", False),
        ("https://127.0.0.1:6443", "10.0.0.0/8,example.com", False),
        ("https://127.0.0.1:6443", "127.0.0.1:6443", True),
        ("https://127.0.0.1:6443", "127.0.0.1:443", False),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.1.2.3/16", True),
        ("https://10.1.2.3", "0.1.2.3", False),
        ("https://api.example.com", "api.example.com", True),
        ("https://API.Example.Com", "api.example.COM", True),
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "*.example.com", True),
        ("https://api.example.com", "ample.com", False),
        ("https://api.example.com", "api.example.com:8443", False),
        ("https://api.example.com", "api.example.com:443", True),
        ("https://api.example.com.", "example.com", True),
        ("https://api.example.com", ".", False),
        ("https://api.example.com", ",, ,", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:1", False),
        ("https://[fd00::1]:6443", "fd00::2", False),
    ],
)
def test_k8_03_hosts_that_are_reached_directly(url: str, no_proxy: str, direct: bool) -> None:
    assert bypasses(url, no_proxy) is direct
    assert choose(url, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) == (None if direct else PROXY)
    assert choose(url, {"https_proxy": PROXY, "no_proxy": no_proxy}) == (None if direct else PROXY)


def test_k8_03_the_scheme_chooses_the_variable_and_lower_case_wins() -> None:
    assert choose("https://a", {"HTTP_PROXY": PROXY}) is None
    assert choose("http://a", {"HTTP_PROXY": PROXY}) == PROXY
    assert choose("https://a", {"ALL_PROXY": PROXY}) == PROXY
    assert choose("https://a", {"https_proxy": "http://lower:1", "HTTPS_PROXY": PROXY}) == "http://lower:1"
    assert choose("https://a", {"HTTPS_PROXY": "proxy:3128"}) == PROXY
    assert choose("https://a", {"HTTPS_PROXY": PROXY, "NO_PROXY": "a", "no_proxy": "b"}) == PROXY


def test_k8_03_a_proxy_is_told_the_user_in_its_address() -> None:
    assert headers("http://proxy:3128") == {}
    assert headers("http://me:p%40ss@proxy:3128") == {"Proxy-Authorization": "Basic bWU6cEBzcw=="}
    assert headers("http://me@proxy:3128") == {"Proxy-Authorization": "Basic bWU6"}
    assert without_password("http://me:p%40ss@proxy:3128") == PROXY
