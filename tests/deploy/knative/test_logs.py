"""The logs of all pods of a service, as they are and as they go on."""

import threading

from deploy.knative import Cluster
from deploy.knative.logs import LogLine

from .api_server import ApiServer
from .given import deployed, document

FIRST, SECOND = "hello-00001-deployment-x1", "hello-00002-deployment-x1"


def say(api: ApiServer, pod: str, text: str) -> None:
    api.do(lambda state: state.say(pod, text))


def texts(lines: list[LogLine]) -> list[tuple[str, str]]:
    return [(line.pod, line.text) for line in lines]


def test_logs_of_all_pods_by_time(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1", "2")
    say(api, FIRST, "one more")
    lines = cluster.logs("hello")
    assert sorted(texts(lines)) == [
        (FIRST, "loading hello-00001"),
        (FIRST, "one more"),
        (SECOND, "loading hello-00002"),
    ]
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    assert texts(cluster.logs("hello", tail=1)) == [(SECOND, "loading hello-00002"), (FIRST, "one more")]


def test_a_line_ends_at_a_line_feed_alone(api: ApiServer, cluster: Cluster) -> None:
    """Progress bars return the carriage, and texts may have separators that Python splits lines at."""
    deployed(cluster, "1")
    bar = "10%\r 50%\r100%\u2028done"
    say(api, FIRST, bar)
    assert texts(cluster.logs("hello", tail=1)) == [(FIRST, bar)]
    lines = cluster.follow_logs("hello", tail=1, timeout_s=30)
    assert next(lines).text == bar
    lines.close()


def test_stamps_are_in_utc_whatever_the_zone_of_the_node(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    told = ["2026-08-01T12:30:00.000000002+02:00 late", "2026-08-01T09:00:00.000000001Z early", "rpc error: no log"]
    api.do(lambda state: state.logs.update({FIRST: told}))
    assert cluster.logs("hello") == [
        LogLine(FIRST, "", "rpc error: no log"),
        LogLine(FIRST, "2026-08-01T09:00:00.000000001Z", "early"),
        LogLine(FIRST, "2026-08-01T10:30:00.000000002Z", "late"),
    ]


def test_what_the_kubelet_says_for_itself_stops_no_log(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.do(lambda state: state.logs[FIRST].append("unable to retrieve container logs"))
    lines = cluster.follow_logs("hello", timeout_s=30)
    assert next(lines).text == "loading hello-00001"
    say(api, FIRST, "two")
    assert next(lines).text == "two"
    lines.close()


def test_a_pod_that_has_not_begun_has_no_log_yet(api: ApiServer, cluster: Cluster) -> None:
    api.controller.behaviours["ghcr.io/acme/hello:1"] = "no image"
    cluster.apply(document())
    deployed(cluster, "2")
    assert texts(cluster.logs("hello")) == [(SECOND, "loading hello-00002")]


def test_following_brings_new_lines_and_new_pods(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    lines = cluster.follow_logs("hello", timeout_s=30)
    assert next(lines).text == "loading hello-00001"
    say(api, FIRST, "two")
    assert texts([next(lines)]) == [(FIRST, "two")]
    deployed(cluster, "2")
    assert texts([next(lines)]) == [(SECOND, "loading hello-00002")]
    say(api, FIRST, "three")
    assert texts([next(lines)]) == [(FIRST, "three")]
    lines.close()


def test_a_log_that_breaks_off_is_read_on_without_a_line_twice(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.do(lambda state: setattr(state, "num_logs_to_cut", 1))
    lines = cluster.follow_logs("hello", timeout_s=30)
    assert next(lines).text == "loading hello-00001"
    say(api, FIRST, "two")
    assert next(lines).text == "two"
    lines.close()
    assert len(api.called("get", "pods/log")) == 2


def test_of_pods_that_start_meanwhile_no_line_is_left_out(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    lines = cluster.follow_logs("hello", tail=0, timeout_s=30)
    revisions: list[str] = []
    thread = threading.Thread(target=lambda: revisions.extend(deployed(cluster, "2")))
    thread.start()
    assert texts([next(lines)]) == [(SECOND, "loading hello-00002")]
    thread.join(timeout=20)
    lines.close()


def test_a_pod_that_goes_leaves_and_the_rest_is_read_on(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1", "2")
    lines = cluster.follow_logs("hello", timeout_s=30)
    assert {next(lines).pod, next(lines).pod} == {FIRST, SECOND}
    api.do(lambda state: state.store.remove("pods", "default", FIRST))
    say(api, SECOND, "still here")
    assert texts([next(lines)]) == [(SECOND, "still here")]
    lines.close()


def test_following_ends_with_its_time(cluster: Cluster) -> None:
    deployed(cluster, "1")
    assert texts(list(cluster.follow_logs("hello", timeout_s=0.5))) == [(FIRST, "loading hello-00001")]
