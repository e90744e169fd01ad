import pytest

from faas.platform.breaker import Capacity
from faas.platform.routing import Target
from tests.platform.test_registry import registry


@pytest.mark.parametrize("path", [b"/-/", b"/-/events", b"/-/page.css"])
@pytest.mark.parametrize("names", [(), ("embed",), ("embed", "echo")])
def test_the_page_has_paths_of_its_own(names, path):
    made = registry(*names)
    made.page = Capacity()
    assert made.route(b"localhost:8000", path, b"GET") == Target(made.page, path)


def test_the_root_is_the_pages_to_look_at_and_a_lone_functions_to_call():
    made = registry("embed")
    made.page = Capacity()
    assert made.route(b"localhost", b"/", b"GET") == Target(made.page, b"/")
    assert made.route(b"localhost", b"/", b"HEAD") == Target(made.page, b"/")
    assert made.route(b"localhost", b"/", b"POST") == Target(made.get("embed").capacity, b"/")


def test_a_functions_own_host_and_path_are_its_own():
    made = registry("embed", "echo")
    made.page = Capacity()
    assert made.route(b"embed.example", b"/", b"GET") == Target(made.get("embed").capacity, b"/")
    assert made.route(b"localhost", b"/f/embed/-/", b"GET") == Target(made.get("embed").capacity, b"/-/")


def test_without_the_page_all_is_as_it_was():
    made = registry("embed", "echo")
    assert made.route(b"localhost", b"/-/", b"GET").status == 404
    assert made.route(b"localhost", b"/", b"GET").status == 200
