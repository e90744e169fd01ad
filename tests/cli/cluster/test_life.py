"""Functions on a cluster, seen to from the command line: the stand-in behind it, services that are there already."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from deploy.errors import NotReady
from deploy.knative import Cluster
from faas.cli.cluster import life
from faas.deployment.rollout import Rollout, bring
from tests.cli.conftest import Faas
from tests.deploy.knative.answers import Answer
from tests.deploy.knative.api_server import ApiServer, always
from tests.deploy.knative.given import deployed, document
from tests.served import Seen, serving


def read(faas: Faas, *words: str) -> Any:
    outcome = faas(*words, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_list_shows_the_functions_of_a_namespace_or_of_all(faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    (row,) = read(faas, "list")
    assert (row["name"], row["url"], row["num_instances"]) == ("hello", "http://hello.default.example.com", 1)
    heading, line = faas("list").out.splitlines()
    assert heading.split() == ["FUNCTION", "URL", "REVISION", "READY", "INSTANCES", "SINCE", "REASON"]
    assert line.startswith("hello     http://hello.default.example.com  hello-00001  yes    1")
    assert faas("list", "--namespace", "other").out == "no functions in other\n"
    assert faas("list", "--all-namespaces").out.splitlines()[1].startswith("default    hello")


def test_describe_shows_revisions_traffic_and_instances(faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1", "2")
    shown = faas("describe", "hello").out
    assert "traffic        hello-00002 100%" in shown
    assert "instances      0 to 3" in shown
    assert "hello-00001-deployment-x1" in shown
    assert [one["name"] for one in read(faas, "describe", "hello")["revisions"]] == ["hello-00002", "hello-00001"]


def test_what_starts_cost_is_shown_with_the_instances_own_phases(api: ApiServer, faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    metrics = 'faas_cold_start_seconds{phase="import"} 0.4\nfaas_cold_start_seconds{phase="thaw"} 0.012\n'
    api.do(lambda state: state.metrics.update({"hello-00001-deployment-x1": metrics}))
    (row,) = read(faas, "describe", "hello", "--cold-starts")
    assert row["phases_s"] == {"import": 0.4, "thaw": 0.012}
    heading, line = faas("describe", "hello", "--cold-starts").out.splitlines()
    assert heading.endswith("TOTAL  SCHEDULING  CONTAINER  OF IT IMAGE  UNTIL READY  IMPORT  THAW")
    assert line.endswith("400 ms  12 ms")


def test_traffic_is_shared_by_numbers_names_and_tags(faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1", "2")
    outcome = faas("traffic", "hello", "--to", "1=75", "--to", "latest=25", "--tag", "old=1")
    assert outcome.code == 0, outcome.err
    found = {row["name"]: (row["percent"], row["tags"]) for row in read(faas, "traffic", "hello")["revisions"]}
    assert found == {"hello-00002": (25, []), "hello-00001": (75, ["old"])}
    assert faas("promote", "hello", "old").out == "hello: hello-00001 100%\n"
    assert faas("promote", "hello").out == "hello: hello-00002 100%\n"
    assert faas("rollback", "hello").out == "hello: hello-00001 100%\n"
    assert faas("rollback", "hello", "--to", "2").out == "hello: hello-00002 100%\n"


@pytest.mark.parametrize(
    ("words", "says", "then"),
    [
        (["traffic", "hello", "--to", "9=100"], "'9' is not a revision", "it has hello-00001 (1)"),
        (["traffic", "hello", "--to", "1=60"], "add up to 60 percent", "have them add up to 100"),
        (["traffic", "hello", "--watch"], "error: hello has no revision on trial", "faas deploy --canary 10"),
        (["traffic", "hello", "--untag", "old"], "'old' is no tag of this service", "it has none"),
        (["rollback", "hello"], "error: hello-00001 has no ready revision before it", "--to REV"),
        (["promote", "hello", "--version", "2"], "follow the versions in their store", "--store s3://bucket/prefix"),
        (["scale", "hello"], "nothing says how many", "give INSTANCES, --min or --max"),
        (["scale", "hello", "1", "--min", "2"], "INSTANCES (1) and --min 2", "give one of them"),
        (["scale", "hello", "9"], "is above max_instances=3", "lower it"),
        (["describe", "other"], "there is no service other in default", "faas list"),
        (["delete", "other", "-y"], "there is no service other in default", "faas list"),
        (["invoke", "other"], "there is no service other in default", "faas list"),
        (["invoke", "hello", "--tag", "no"], "hello has no tag 'no'; it has none", "faas traffic hello"),
        (["invoke", "hello", "--address", "10.0.0.1"], "is no URL", "write it as http://"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    faas: Faas, cluster: Cluster, words: list[str], says: str, then: str
) -> None:
    deployed(cluster, "1")
    outcome = faas(*words, "--cluster")
    what, _, following = outcome.err.partition("\nnext:  ")
    assert outcome.code == 2, outcome.err
    assert says in what
    assert then in following


def test_who_may_not_is_told_where_the_rights_are(api: ApiServer, faas: Faas) -> None:
    forbidden = Answer(403, "services is forbidden")
    api.do(lambda state: state.faults.append(always(forbidden, verb="list", resource="services")))
    outcome = faas("list")
    assert outcome.code == 1
    assert "docs/knative.md lists the rights" in outcome.err


def test_scale_sets_the_bounds_of_a_new_revision(faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    assert faas("scale", "hello", "2").out == "hello: 2 to 3 instances, in revision hello-00002\n"
    scaled = read(faas, "scale", "hello", "--min", "0", "--max", "0")
    assert (scaled["min_instances"], scaled["max_instances"], scaled["revision"]) == (0, 0, "hello-00003")


def test_a_deployment_says_that_another_has_come_in_between(cluster: Cluster) -> None:
    deployed(cluster, "1")
    others: list[str] = []

    def step(text: str) -> None:
        if text == "hello is changed" and not others:
            others.append(cluster.apply(document(tag="3")).action)

    brought = bring(cluster, document(tag="2"), Rollout(timeout_s=20), step=step)
    assert others == ["changed"]
    assert brought.revision == "hello-00003"
    assert brought.notes == ("somebody else changed hello while it was waited for, and hello-00003 is the latest now",)


def test_a_deployment_says_in_words_what_it_took_back(faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    assert faas("scale", "hello", "--min", "2").code == 0
    brought = bring(cluster, document(), Rollout(timeout_s=20), step=lambda _: None)
    assert brought.overridden == ("faas scale had set min-scale, and it is set back",)


def test_logs_are_those_of_all_instances(api: ApiServer, faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.do(lambda state: state.say("hello-00001-deployment-x1", "hello there"))
    first, second = faas("logs", "hello").out.splitlines()
    assert first.endswith("hello-00001-deployment-x1 loading hello-00001")
    assert second.endswith("hello-00001-deployment-x1 hello there")
    assert faas("logs", "hello", "-n", "1").out == f"{second}\n"
    line = json.loads(faas("logs", "hello", "-n", "1", "--json").out)
    assert (line["pod"], line["text"]) == ("hello-00001-deployment-x1", "hello there")


def test_what_instances_log_is_shown_as_text_and_kept_for_programs(
    api: ApiServer, faas: Faas, cluster: Cluster
) -> None:
    deployed(cluster, "1")
    logged = {"time": "2026-08-01T10:00:00.123+00:00", "level": "error", "logger": "app", "message": "no"}
    text = json.dumps({**logged, "traceback": "Traceback\nValueError: no"})
    api.do(lambda state: state.say("hello-00001-deployment-x1", text))
    shown = faas("logs", "hello", "-n", "1").out.splitlines()
    assert [line.partition("-x1 ")[2] for line in shown] == ["ERROR app: no", "Traceback", "ValueError: no"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown[0].split()[0])
    assert json.loads(faas("logs", "hello", "-n", "1", "--json").out)["text"] == text


def test_a_function_at_zero_has_no_log_and_it_is_said(api: ApiServer, faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.do(lambda state: state.logs.clear())
    outcome = faas("logs", "hello")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "hello has no instance now that has logged anything; a call starts one\n"


def test_a_failing_revision_is_told_by_its_pod_and_promote_names_what_has_the_calls(
    api: ApiServer, faas: Faas, cluster: Cluster
) -> None:
    deployed(cluster, "1")
    api.controller.behaviours["ghcr.io/acme/hello:2"] = "no image"
    with pytest.raises(NotReady):
        wait_for(cluster, "2")
    (row,) = read(faas, "list")
    assert (row["ready"], row["reason"]) == (None, "ImagePullBackOff")
    newest = read(faas, "describe", "hello")["revisions"][0]
    assert (newest["name"], newest["reason"]) == ("hello-00002", "ImagePullBackOff")
    outcome = faas("promote", "hello")
    assert outcome.out == "hello: hello-00001 100%\n"
    assert "hello-00002 is the latest, but not ready: hello-00001 has the calls until it is" in outcome.err


def wait_for(cluster: Cluster, tag: str) -> None:
    applied = cluster.apply(document(tag=tag))
    cluster.wait_ready("hello", timeout_s=1, generation=applied.generation)


def test_a_function_is_called_at_the_ingress_by_its_host(
    faas: Faas, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def echo(seen: Seen) -> Response:
        return JSONResponse(seen.headers["host"])

    deployed(cluster, "1")
    with serving(echo) as served:
        outcome = faas("invoke", "hello", "-d", "1", "--address", served.url)
        assert (outcome.code, outcome.out) == (0, '"hello.default.example.com"\n'), outcome.err
        monkeypatch.setenv("FAAS_INGRESS", f"{served.url}/")
        assert faas("invoke", "hello", "-d", "1", "--path", "/count").code == 0
        faas("traffic", "hello", "--tag", "next=1")
        cluster.wait_ready("hello", timeout_s=20, generation=2)
        assert faas("invoke", "hello", "--tag", "next", "-d", "1").out == '"next-hello.default.example.com"\n'
    assert [seen.path for seen in served.seen] == ["/", "/count", "/"]


def test_deletion_asks_and_waits(api: ApiServer, faas: Faas, cluster: Cluster) -> None:
    deployed(cluster, "1")
    asked = faas("delete", "hello", stdin=b"n\n")
    assert (asked.code, len(cluster.services())) == (1, 1)
    assert "delete hello in default with 1 revision?" in asked.err
    assert faas("delete", "hello", "--yes").out == "hello is deleted\n"
    assert cluster.services() == []


def test_a_deletion_that_is_no_longer_waited_for_goes_on_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    class Stopped(Cluster):
        def __init__(self) -> None:
            pass

        def delete(self, name: str, *, timeout_s: float = 0) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        life.delete_service(Stopped(), "hello")
    assert "hello is no longer waited for, and the cluster goes on deleting it" in capsys.readouterr().err


def test_secrets_are_made_listed_and_deleted_and_never_shown(api: ApiServer, faas: Faas) -> None:
    made = faas("secret", "create", "hub", "TOKEN=abc", "--from-env-file", "-", stdin=b"export USER_NAME='me'\n")
    assert (made.code, made.out) == (0, "hub in default is created: TOKEN, USER_NAME\n"), made.err
    assert read(faas, "secret", "create", "hub", "TOKEN=new")["action"] == "changed"
    (row,) = read(faas, "secret", "list")
    assert (row["name"], row["keys"]) == ("hub", ["TOKEN", "USER_NAME"])
    assert "abc" not in faas("secret", "list").out
    assert faas("secret", "delete", "hub", "-y").out == "hub is deleted\n"
    assert faas("secret", "list").out == "no secrets in default\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["create", "hub"], "hub is given no value"),
        (["create", "hub", "TOKEN"], "has no equals sign"),
        (["create", "hub", "--from-file", "/nowhere"], "cannot be read"),
        (["delete", "other", "-y"], "there is no secret other"),
    ],
)
def test_secrets_that_are_wrong_are_refused(api: ApiServer, faas: Faas, words: list[str], says: str) -> None:
    outcome = faas("secret", *words)
    assert outcome.code == 2
    assert says in outcome.err
    assert "\nnext:  " in outcome.err
