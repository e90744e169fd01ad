"""`faas deploy` and `faas doctor`: real functions, a real registry or S3, and the stand-in for a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from faas.deployment.described import version
from tests import registry_server, s3_server
from tests.cli.conftest import Faas
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.webhook import refusals
from tests.deployment.given import push_base
from tests.registry_server import Registry

APP = """
from faas import Batching, inference_function


@inference_function(batching=Batching(max_batch_size=8))
class Embed:
    def setup(self):
        self.factor = 2

    def predict(self, numbers: list[int]) -> list[int]:
        return [self.factor * number for number in numbers]
"""


def read(faas: Faas, *words: str) -> Any:
    outcome = faas(*words, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_the_manifest_is_shown_without_a_cluster_and_a_place(faas: Faas, folder: Path) -> None:
    (folder / "app.py").write_text(APP)
    outcome = faas("deploy", "app.py:Embed", "--dry-run", "-o", "yaml", "--namespace", "team", "--env", "A=b")
    assert outcome.code == 0, outcome.err
    document = yaml.safe_load(outcome.out)
    assert refusals(document) == []
    assert (document["metadata"]["name"], document["metadata"]["namespace"]) == ("embed", "team")
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("repository.invalid/embed:")
    assert container["args"] == ["serve", "--bundle", "/opt/faas/bundle"]
    assert {"name": "A", "value": "b"} in container["env"]
    assert "set FAAS_IMAGE or FAAS_STORE" in outcome.err
    for as_json in (["-o", "json"], ["--json"]):
        again = faas("deploy", "app.py", "--dry-run", *as_json, "--namespace", "team", "--env", "A=b")
        assert json.loads(again.out) == document


def test_two_functions_of_one_name_are_refused_and_one_that_two_targets_name_is_one(faas: Faas, folder: Path) -> None:
    (folder / "app.py").write_text(f"print('at import')\n{APP}")
    (folder / "other.py").write_text(APP)
    once = faas("deploy", "app.py", "app.py:Embed", "--dry-run", "-o", "json")
    assert once.code == 0, once.err
    assert json.loads(once.out)["metadata"]["name"] == "embed"
    twice = faas("deploy", "app.py", "other.py", "--dry-run")
    assert (twice.code, twice.out) == (2, "")
    assert "two functions are called 'embed': " in twice.err


@registry_server.needed
def test_the_whole_way_of_a_function(
    faas: Faas, api: ApiServer, registry: Registry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deployed, deployed unchanged, changed on trial, promoted, taken back, deleted."""
    monkeypatch.setenv("FAAS_IMAGE", f"{registry.host}/team")
    push_base(f"{registry.host}/team", version=version())
    (folder / "app.py").write_text(APP)
    (first,) = read(faas, "deploy", "app.py:Embed")
    assert (first["action"], first["revision"], first["traffic"]) == ("created", "embed-00001", {"embed-00001": 100})
    assert first["snapshot"] == "image"
    assert first["image"].startswith(f"{registry.host}/team/embed@sha256:")
    (again,) = read(faas, "deploy", "app.py:Embed")
    assert (again["action"], again["sent_bytes"], again["image"]) == ("unchanged", 0, first["image"])
    (folder / "app.py").write_text(APP.replace("= 2", "= 3"))
    shown = faas("deploy", "app.py:Embed", "--canary", "10")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1].split()[:4] == ["embed", "embed-00002", "changed", "10%"]
    assert "pushing" in shown.err
    (revision,) = api.do(lambda state: state.store.listed("services", "default"))
    assert revision["metadata"]["labels"]["faas/revision"] != first["version"]
    assert faas("promote", "embed").out == "embed: embed-00002 100%\n"
    assert faas("rollback", "embed").out == "embed: embed-00001 100%\n"
    assert faas("delete", "embed", "-y").code == 0


@pytest.mark.slow
def test_a_function_in_a_store_runs_on_the_shared_image(
    faas: Faas, api: ApiServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "app.py").write_text(APP)
    with s3_server.rclone(folder / "s3") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = ["--store", "s3://bucket/here", "--base", "registry.test/runtime:1", "--secret", "aws"]
        (row,) = read(faas, "deploy", "app.py:Embed", *store)
        assert (row["image"], row["snapshot"]) == ("registry.test/runtime:1", "s3")
        assert row["bundle"].startswith("s3://bucket/here/.bundles/embed/")
        (again,) = read(faas, "deploy", "app.py:Embed", *store)
        assert (again["action"], again["sent_bytes"]) == ("unchanged", 0)
    (service,) = api.do(lambda state: state.store.listed("services", "default"))
    (container,) = service["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env["FAAS_SNAPSHOT_URI"].startswith("s3://bucket/here/embed@")
    assert env["AWS_ENDPOINT_URL"] == server.endpoint
    assert not any("KEY" in name for name in env)
    assert container["envFrom"] == [{"secretRef": {"name": "aws"}}]


@pytest.mark.parametrize(
    ("words", "says", "then"),
    [
        ([], "nothing says where the function is to go; set FAAS_IMAGE", "correct it"),
        (["--image", "r.test/t", "-o", "yaml"], "-o is for --dry-run", "give both"),
        (["--image", "r.test/t", "--watch"], "--watch is for --canary", "--canary 10 --watch"),
        (["--image", "r.test/t", "--canary", "5", "--no-traffic"], "does not go with --no-traffic", "give one"),
        (["--image", "r.test/t", "--tag", "x", "--no-wait"], "leaves no time to share traffic", "leave --no-wait out"),
        (["--image", "r.test/t", "--snapshot", "disk"], "--snapshot disk: give s3, image", "correct it"),
        (["--image", "r.test/t", "--env", "A"], "--env A: has no value", "write --env NAME=VALUE"),
        (["--image", "r.test/t", "--env", "K_SERVICE=1"], "'K_SERVICE' is set by the platform", "use another name"),
        (["--image", "r.test/t", "--env", "a.b=1"], "'a.b' is not a name of a variable", "use letters"),
        (["--image", "r.test/t", "--secret", "A=b"], "secret 'A=b': write the name of a secret", "correct it"),
        (["--image", "r.test/t", "--tag", "My_Tag"], "cannot be part of a host", "use a-z"),
        (["--image", "r.test/t", "--namespace", "Team_A"], "namespace='Team_A' is not a DNS label", "use a-z"),
        (["--image", "https://r.test/t"], "'https://r.test/t' (--image or FAAS_IMAGE) is no prefix", "no https://"),
        (["--image", "r.test/Team", "--dry-run"], "'r.test/Team' (--image or FAAS_IMAGE) is no prefix", "lower case"),
        (["--image", "r.test/team:1"], "'r.test/team:1' (--image or FAAS_IMAGE) is no prefix", "no tag"),
        (["--local", "--image", "a/b"], "--local and --image, which is for clusters", "leave one out"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(
    faas: Faas, api: ApiServer, folder: Path, words: list[str], says: str, then: str
) -> None:
    (folder / "app.py").write_text("raise SystemExit('nothing of this is run')")
    outcome = faas("deploy", "app.py:Embed", *words)
    what, _, following = outcome.err.partition("\nnext:  ")
    assert outcome.code == 2, outcome.err
    assert says in what
    assert then in following
    assert api.state.calls == []


@registry_server.needed
def test_doctor_looks_at_cluster_registry_and_function(
    faas: Faas, api: ApiServer, registry: Registry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAAS_IMAGE", f"{registry.host}/seen")
    push_base(f"{registry.host}/seen", version=version())
    node = {
        "metadata": {"name": "node-1", "labels": {}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "4", "memory": "8Gi"},
        },
    }
    api.do(lambda state: state.store.put("nodes", node))
    (folder / "app.py").write_text(APP.replace("setup(self):", "setup(self):\n        raise OSError"))
    findings = read(faas, "doctor", "app.py:Embed")
    found = {finding["check"]: finding["level"] for finding in findings}
    assert found["dry run"] == found["concurrency"] == found["capacity"] == found["reach"] == "ok"
    assert api.do(lambda state: state.store.listed("services", "default")) == []
    shown = faas("doctor")
    assert shown.code == 0
    assert "ok      cluster  " in shown.out


def test_doctor_says_what_is_not_there(faas: Faas, api: ApiServer) -> None:
    api.do(lambda state: setattr(state, "apis", ()))
    outcome = faas("doctor", "--store", "s3://-/x", "--base", "127.0.0.1:1/NONE:1")
    assert outcome.code == 1
    assert "error   knative  Knative Serving is not installed" in outcome.out
    assert outcome.out.count("cannot be reached") == 2
    assert "note    places" in faas("doctor").out
