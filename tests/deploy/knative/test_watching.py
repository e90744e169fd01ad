"""K8-02: watches that end, that expire, and that never bring what is waited for."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.errors import Missing, NotAllowed, NotReady, Unreachable
from deploy.knative import Cluster
from deploy.knative import watching as watching_module
from deploy.knative.rest import Rest
from deploy.knative.watching import Changed, Listed, Watch

from .answers import Answer
from .api_server import ApiServer, Call, once
from .given import document

PODS = "/api/v1/namespaces/default/pods"
GONE = Answer(410, "too old resource version: 1 (2)")


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}}, **more}


def watching(rest: Rest) -> tuple[Watch, Any]:
    watch = Watch(rest, PODS, {"labelSelector": "a=b"})
    return watch, watch.events(time.monotonic() + 20)


def names(event: Listed) -> list[str]:
    return [item["metadata"]["name"] for item in event.items]


def test_a_list_and_then_what_changes(api: ApiServer, rest: Rest) -> None:
    api.do(lambda state: state.store.put("pods", pod("one")))
    watch, events = watching(rest)
    assert names(next(events)) == ["one"]
    api.do(lambda state: state.store.put("pods", pod("two")))
    assert next(events) == Changed("ADDED", api.do(lambda state: state.store.get("pods", "default", "two")))
    api.do(lambda state: state.store.remove("pods", "default", "one"))
    assert next(events).kind == "DELETED"
    watch.stop()
    assert list(events) == []


def test_stop_ends_a_watch_that_is_silent(api: ApiServer, rest: Rest) -> None:
    watch, events = watching(rest)
    assert names(next(events)) == []
    ended = threading.Event()

    def read() -> None:
        list(events)
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    while not api.called("watch", "pods"):
        ended.wait(0.01)
    watch.stop()
    assert ended.wait(10)
    thread.join(timeout=10)


@pytest.mark.parametrize("how", ["event", "status"])
def test_k8_02_a_410_means_a_new_list_and_its_version(api: ApiServer, rest: Rest, how: str) -> None:
    fault: Any = [{"type": "ERROR", "object": GONE.status}] if how == "event" else GONE
    api.do(lambda state: state.faults.append(once(fault, fault, verb="watch", resource="pods")))
    watch, events = watching(rest)
    assert names(next(events)) == []
    api.do(lambda state: state.store.put("pods", pod("meanwhile")))
    assert names(next(events)) == ["meanwhile"]
    assert names(next(events)) == ["meanwhile"]
    api.do(lambda state: state.store.put("pods", pod("later")))
    assert next(events).object["metadata"]["name"] == "later"
    watch.stop()
    versions = [call.query["resourceVersion"] for call in api.called("watch", "pods")]
    assert all(version.isdigit() for version in versions)
    assert int(versions[-1]) > int(versions[0])


def test_k8_02_an_event_that_breaks_off_in_the_middle_means_a_new_list(
    api: ApiServer, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = watching_module.lines, [b'{"type": "MODIFIED", "object": {"meta', b'"a proxy\'s page"']

    def lines(response: Any) -> Iterator[bytes]:
        return iter([broken.pop()]) if broken else whole(response)

    monkeypatch.setattr(watching_module, "lines", lines)
    watch, events = watching(rest)
    assert [names(next(events)) for _ in range(3)] == [[], [], []]
    api.do(lambda state: state.store.put("pods", pod("one")))
    assert next(events).object["metadata"]["name"] == "one"
    watch.stop()


def test_quiet_watches_are_taken_up_ever_after() -> None:
    assert [watching_module.pause_s(number) for number in (1, 2, 5, 7, 100_000)] == [0.1, 0.2, 1.6, 5, 5]


def test_history_that_is_gone_is_no_loss(api: ApiServer, rest: Rest) -> None:
    """The watch's own version is too old by the time it begins: the real 410."""
    watch, events = watching(rest)
    next(events)

    def forget(state: Any) -> None:
        state.store.put("pods", pod("one"))
        state.store.expire()

    api.do(forget)
    assert names(next(events)) == ["one"]
    watch.stop()


def test_a_watch_that_brought_something_goes_on_from_there(api: ApiServer, rest: Rest) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "100"}}}
    api.do(lambda state: state.faults.append(once([bookmark], verb="watch", resource="pods")))
    watch, events = watching(rest)
    next(events)
    api.do(lambda state: state.store.put("pods", pod("one")))
    assert next(events).object["metadata"]["name"] == "one"
    watch.stop()
    assert len(api.called("list", "pods")) == 1
    assert [call.query["resourceVersion"] for call in api.called("watch", "pods")] == ["100", "100"]
    assert all(call.query["allowWatchBookmarks"] == "true" for call in api.called("watch", "pods"))


def test_bookmarks_come_in_quiet_times_and_are_not_events(api: ApiServer, rest: Rest) -> None:
    api.do(lambda state: setattr(state, "bookmark_every_s", 0.02))
    events = Watch(rest, PODS, {}).events(time.monotonic() + 0.6)
    assert [type(event) for event in events] == [Listed]


def test_what_no_second_try_mends_is_raised(api: ApiServer, rest: Rest) -> None:
    _, events = watching(rest)
    next(events)
    api.do(lambda state: state.forbidden.add(("watch", "pods")))
    with pytest.raises(NotAllowed):
        next(events)
    with pytest.raises(Missing):
        next(Watch(rest, "/api/v1/namespaces/default/unknowns", {}).events(time.monotonic() + 5))


def test_a_server_that_cannot_be_reached_at_first_is_an_error_and_later_a_pause(api: ApiServer, rest: Rest) -> None:
    trouble = [Answer(500, "etcd"), Answer(503, "starting")]
    api.do(lambda state: state.faults.append(once(*trouble, verb="watch", resource="pods")))
    watch, events = watching(rest)
    next(events)
    assert isinstance(next(events), Listed)
    assert isinstance(next(events), Listed)
    watch.stop()
    list(events)
    rest.connection.configuration.host = "http://127.0.0.1:1"
    object.__setattr__(rest.connection, "host", "http://127.0.0.1:1")
    with pytest.raises(Unreachable):
        next(Watch(rest, PODS, {}).events(time.monotonic() + 5))


def test_k8_02_ready_only_in_the_list_after_an_end_and_two_410s(api: ApiServer, cluster: Cluster) -> None:
    api.controller.behaviours["ghcr.io/acme/hello:1"] = "never"
    cluster.apply(document())
    seen = api.do(lambda state: state.store.get("services", "default", "hello"))
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]}}}
    steps: list[Any] = [
        [{"type": "MODIFIED", "object": seen}, bookmark],
        [{"type": "ERROR", "object": GONE.status}],
        GONE,
    ]

    def fault(call: Call) -> Any:
        if (call.verb, call.resource) != ("watch", "services"):
            return None
        if not steps:
            return []  # every later watch ends at once
        step = steps.pop(0)
        if not steps:
            _become_ready(api)
        return step

    api.do(lambda state: state.faults.append(fault))
    assert cluster.wait_ready("hello", timeout_s=5).url == "http://hello"


def _become_ready(api: ApiServer) -> None:
    found = api.state.store.get("services", "default", "hello")
    assert found is not None
    conditions = [{"type": kind, "status": "True"} for kind in ("ConfigurationsReady", "Ready", "RoutesReady")]
    found["status"] |= {"conditions": conditions, "url": "http://hello", "observedGeneration": 1}
    api.state.store.put("services", found)


def test_k8_02_never_ready_ends_at_the_deadline_with_the_last_word(api: ApiServer, cluster: Cluster) -> None:
    api.controller.behaviours["ghcr.io/acme/hello:1"] = "never"
    cluster.apply(document())
    began = time.monotonic()
    with pytest.raises(NotReady, match=r"is not ready after 1\.5 s.*running, not ready yet") as raised:
        cluster.wait_ready("hello", timeout_s=1.5)
    assert 1.4 <= time.monotonic() - began < 10
    assert raised.value.reason == "Timeout"
    assert raised.value.log == ("loading hello-00001",)
