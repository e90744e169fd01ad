import msgspec
import pytest

from faas.platform.breaker import Capacity
from faas.platform.registry import Registry
from faas.platform.revisions import Revisions
from faas.platform.routing import Target
from faas.platform.wire import LocalAnswer


class Hosted:
    """As much of a function as the registry looks at."""

    def __init__(self, name, **tags):
        self.name = name
        self.python_name = name.title()
        self.capacity = Capacity()
        self.of_tags = {tag: Capacity() for tag in tags}
        self.revisions = Revisions(name=name, tags=tags)
        self.failure = None

    def next(self):
        return self.capacity

    def tagged(self, tag):
        return self.of_tags.get(tag)


def registry(*names):
    made = Registry()
    made.is_ready = True
    for name in names:
        made.add(Hosted(name))
    return made


@pytest.mark.parametrize(
    ("host", "path", "name", "rest"),
    [
        (b"localhost:8000", b"/f/embed/", "embed", b"/"),
        (b"localhost:8000", b"/f/embed", "embed", b"/"),
        (b"localhost:8000", b"/f/Embed/predict", "embed", b"/predict"),
        (b"localhost:8000", b"/f/embed/predict", "embed", b"/predict"),
        (b"localhost:8000", b"/f/echo/a/b", "echo", b"/a/b"),
        (b"embed.example.com", b"/predict", "embed", b"/predict"),
        (b"embed:8000", b"/", "embed", b"/"),
        (b"embed.example.com", b"/f/echo/", "echo", b"/"),
        (b"embed.example.com", b"/readyz", "embed", b"/readyz"),
    ],
)
def test_by_path_and_by_host(host, path, name, rest):
    made = registry("embed", "echo")
    assert made.route(host, path, b"POST") == Target(made.get(name).capacity, rest)


def test_a_lone_function_is_at_the_root_too():
    made = registry("embed")
    assert made.route(b"localhost", b"/count", b"POST") == Target(made.get("embed").capacity, b"/count")


def test_unknown_functions_name_the_nearest_and_those_there_are():
    made = registry("embed", "echo")
    answer = made.route(b"localhost", b"/f/embd/", b"POST")
    assert isinstance(answer, LocalAnswer)
    assert answer.status == 404
    assert "did you mean 'embed'" in answer.problem.detail
    other = made.route(b"localhost", b"/predict", b"POST")
    assert other.status == 404
    assert "/f/echo/, /f/embed/" in other.problem.detail


def test_the_root_lists_the_functions():
    answer = registry("embed", "echo").route(b"localhost", b"/", b"GET")
    assert msgspec.json.decode(answer.body) == {"functions": ["/f/echo/", "/f/embed/"]}


@pytest.mark.parametrize(
    ("path", "before", "after"), [(b"/livez", 200, 200), (b"/readyz", 503, 200), (b"/healthz", 503, 200)]
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"OPTIONS"])
def test_ht_09_the_platforms_own_probes(path, before, after, method):
    made = registry("embed")
    made.is_ready = False
    assert made.route(b"localhost", path, method).status == before
    made.is_ready = True
    assert made.route(b"localhost", path, method).status == after
    assert made.route(b"localhost", path, b"POST").status == 405
