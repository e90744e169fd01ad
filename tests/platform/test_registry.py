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
    assert made.route(b"localhost", b"/f/%zz%/", b"POST").status == 404
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


@pytest.mark.parametrize(
    ("host", "path", "header"),
    [
        (b"localhost", b"/f/embed@next/predict", b""),
        (b"localhost", b"/f/embed%40next/predict", b""),
        (b"localhost", b"/f/%65mbe%64@next/predict", b""),
        (b"localhost", b"/f/%45mbed/predict", b"next"),
        (b"localhost", b"/f/Embed@next/predict", b""),
        (b"localhost", b"/f/embed/predict", b"next"),
        (b"localhost", b"/f/embed@next/predict", b"other"),
        (b"next-embed.example.com", b"/predict", b""),
        (b"embed.example.com", b"/predict", b"next"),
    ],
)
def test_a_revision_by_its_tag(host, path, header):
    made = registry("echo")
    made.add(Hosted("embed", next="r1"))
    assert made.route(host, path, b"POST", header) == Target(made.get("embed").tagged("next"), b"/predict")


def test_an_unknown_tag_is_not_found_and_names_the_nearest():
    made = registry("echo")
    made.add(Hosted("embed", next="r1"))
    for host, path, header in ((b"x", b"/f/embed@nex/", b""), (b"x", b"/f/embed/", b"nex")):
        answer = made.route(host, path, b"POST", header)
        assert (answer.status, "did you mean 'next'" in answer.problem.detail) == (404, True)


def test_a_functions_own_name_goes_before_anothers_tag():
    made = registry("next-embed")
    made.add(Hosted("embed", next="r1"))
    assert made.route(b"next-embed.example.com", b"/", b"POST") == Target(made.get("next-embed").capacity, b"/")


def test_a_function_without_a_revision_says_why():
    made = registry("embed", "echo")
    embed = made.get("embed")
    embed.next = lambda: None
    assert "gets calls without a tag" in made.route(b"x", b"/f/embed/", b"POST").problem.detail
    embed.failure = "RuntimeError: no model"
    answer = made.route(b"x", b"/f/embed/", b"POST")
    assert (answer.status, "no model" in answer.problem.detail) == (503, True)


def test_what_is_removed_is_not_found():
    made = registry("embed", "echo")
    made.remove("embed")
    assert made.route(b"x", b"/f/embed/", b"POST").status == 404
    assert made.route(b"embed.example.com", b"/", b"POST") == Target(made.get("echo").capacity, b"/")


def test_local_servers_are_below_their_paths_until_they_are_unmounted():
    made = registry("embed", "echo")
    made.mount(b"/_faas/control", "/run/control")
    found = made.route(b"x", b"/_faas/control/functions", b"GET")
    assert [endpoint.address for endpoint in found.capacity.endpoints] == ["/run/control"]
    assert found.path == b"/functions"
    assert made.route(b"x", b"/_faas/control", b"GET").path == b"/"
    assert made.route(b"x", b"/_faas/controls", b"GET").status == 404
    made.unmount()
    assert made.route(b"x", b"/_faas/control/functions", b"GET").status == 404


class Search:
    """Finds nothing, and remembers what was asked for."""

    def __init__(self, done):
        self.asked = []
        self.done = done

    def find(self, name):
        self.asked.append(name)
        return self.done


def test_functions_that_are_not_known_are_looked_for_where_there_is_a_place():
    made, done = registry("embed"), object()
    made.search = Search(done)
    found = made.route(b"localhost", b"/f/My_Model@next/predict", b"POST")
    assert made.search.asked == []  # to ask where a request goes twice is not to look twice
    assert (found.find(), found.otherwise.status) == (done, 404)
    assert made.search.asked == ["my-model"]
    assert isinstance(made.route(b"localhost", b"/f/embed/", b"POST"), Target)
    assert made.route(b"localhost", b"/f/!!/", b"POST").status == 404  # no name of a function
    made.search = None
    assert made.route(b"localhost", b"/f/other/", b"POST").status == 404


def test_a_function_that_is_being_deployed_for_the_first_time_is_waited_for():
    made = registry("embed")
    made.search = Search(object())
    made.get("embed").next = lambda: None
    assert made.route(b"localhost", b"/f/embed/", b"POST").find() is made.search.done
    assert made.route(b"embed.example.com", b"/", b"POST").find() is made.search.done
    made.get("embed").failure = "no model"
    assert made.route(b"localhost", b"/f/embed/", b"POST").status == 503
