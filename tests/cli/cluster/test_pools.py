"""`faas pool`, `faas deploy --pool` and `faas delete --pool`: a stand-in for the cluster, real S3, a pool that is told.

A pool that runs is in `tests/e2e/test_pods.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.responses import JSONResponse, Response

from deploy.errors import NotOurs
from deploy.knative import Cluster
from faas.bundle.manifest import MANIFEST, decode
from snapshot.pins import Pins
from snapshot.s3_client import S3Client
from snapshot.s3_store import S3Store
from tests import s3_server
from tests.cli.conftest import Faas
from tests.deploy.knative.answers import Answer
from tests.deploy.knative.api_server import ApiServer, always
from tests.deploy.knative.given import deployed, document
from tests.deploy.webhook import refusals
from tests.served import Seen, serving

PLACE = "s3://bucket/prod/pools/gpu-a"
APP = """
from faas import inference_function


@inference_function
class Adds:
    def setup(self):
        self.step = 1

    def predict(self, x: int) -> int:
        return x + self.step
"""


def read(faas: Faas, *words: str) -> Any:
    outcome = faas(*words, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAAS_STORE", "s3://bucket/prod")
    monkeypatch.setenv("FAAS_BASE_IMAGE", "registry.test/team/faas-runtime:1")
    monkeypatch.delenv("FAAS_TOKEN", raising=False)


def test_the_manifest_of_a_pool_is_shown_without_a_cluster(faas: Faas) -> None:
    outcome = faas("pool", "create", "GPU_a", "--dry-run", "--gpu", "L4", "--namespace", "team", "--env", "A=b")
    assert outcome.code == 0, outcome.err
    document = yaml.safe_load(outcome.out)
    assert refusals(document, flags=["kubernetes.podspec-affinity"]) == []
    as_json = faas(
        "pool", "create", "GPU_a", "--dry-run", "--gpu", "L4", "--namespace", "team", "--env", "A=b", "--json"
    )
    assert json.loads(as_json.out) == document
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == f"s3://bucket/prod/pools/{document['metadata']['name']}"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert {"name": "A", "value": "b"} in container["env"]


def test_a_pool_is_made_changed_listed_and_deleted(api: ApiServer, faas: Faas, cluster: Cluster) -> None:
    (made,) = read(faas, "pool", "create", "gpu-a", "--max-instances", "2")
    assert (made["action"], made["revision"], made["functions"]) == ("created", "gpu-a-00001", PLACE)
    token = cluster.secret_value("gpu-a-token", "FAAS_TOKEN")
    assert token is not None
    assert len(token) >= 16
    (again,) = read(faas, "pool", "create", "gpu-a", "--max-instances", "2")
    assert again["action"] == "unchanged"
    (changed,) = read(faas, "pool", "create", "gpu-a", "--max-instances", "5")
    assert (changed["action"], changed["revision"]) == ("changed", "gpu-a-00002")
    assert cluster.secret_value("gpu-a-token", "FAAS_TOKEN") == token, "pods that run know no other"
    deployed(cluster, "1")
    assert [row["name"] for row in read(faas, "pool", "list")] == ["gpu-a"]
    assert [row["name"] for row in read(faas, "list")] == ["hello"]
    with pytest.raises(NotOurs, match="gpu-a in default is a pool, whose place a function of that name would take"):
        cluster.apply(document("gpu-a"))
    refused = faas("delete", "gpu-a", "-y")
    assert (refused.code, refused.err) == (2, "error: gpu-a is a pool\nnext:  faas pool delete gpu-a\n")
    assert faas("pool", "delete", "gpu-a", stdin=b"n\n").code == 1
    assert faas("pool", "delete", "gpu-a", "-y").out == "gpu-a is deleted; its functions are still in the store\n"
    assert faas("pool", "list").out == "no pools in default\n"
    assert cluster.secrets() == []


@pytest.mark.parametrize(
    ("words", "says", "then"),
    [
        (["pool", "create", "hello"], "hello in default is a function, whose place a pool", "choose another name"),
        (["pool", "delete", "gpu-b", "-y"], "there is no pool gpu-b in default", "faas pool list"),
        (["deploy", "--pool", "gpu-b", "app.py"], "there is no pool gpu-b in default", "faas pool list"),
        (["pool", "delete", "hello", "-y"], "hello is a function, not a pool", "faas pool list"),
        (["deploy", "--pool", "hello", "app.py"], "hello is a function, not a pool", "faas pool list"),
        (["deploy", "--pool", "a", "--canary", "5", "app.py"], "--pool and --canary, which is not for pools", "leave"),
        (["deploy", "--pool", "http://pool.test", "app.py"], "nothing says the token", "FAAS_TOKEN"),
        (["pool", "create", "a", "--store", "/here"], "nothing says where the functions of a lie", "FAAS_STORE"),
        (["pool", "create", "a", "--env", "FAAS_MEMORY=1"], "FAAS_MEMORY is set by the pool itself", ""),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    faas: Faas, cluster: Cluster, words: list[str], says: str, then: str
) -> None:
    deployed(cluster, "1")
    outcome = faas(*words)
    what, _, following = outcome.err.partition("\nnext:  ")
    assert outcome.code == 2, outcome.err
    assert says in what
    assert then in following


def test_what_the_cluster_refuses_leaves_no_secret_behind(api: ApiServer, faas: Faas, cluster: Cluster) -> None:
    refusal = Answer(422, "admission webhook denied the request: must not set the field(s)")
    api.do(lambda state: state.faults.append(always(refusal, verb="patch", resource="services")))
    assert faas("pool", "create", "gpu-a").code == 1
    assert cluster.secrets() == []


@dataclass
class Told:
    """A pool that says what a test has it say."""

    place: str = PLACE
    failure: str | None = None
    functions: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def answer(self, seen: Seen) -> Response:
        self.asked.append((seen.headers["host"], seen.headers["authorization"], seen.path))
        if seen.path.endswith("/place"):
            return JSONResponse({"place": self.place})
        bundle = json.loads(seen.body)["bundle"]
        return JSONResponse(
            {"place": self.place, "bundle": bundle, "failure": self.failure, "functions": self.functions}
        )


ADDS = {"name": "adds", "revision": "abcd1234", "traffic": {"abcd1234": 100}, "snapshot": None, "failure": None}


def test_functions_are_put_where_the_pool_looks_and_taken_from_there(
    api: ApiServer, faas: Faas, cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "aid.py").write_text("")
    pool = Told(functions=[ADDS])
    with s3_server.rclone(folder, "bucket") as server, serving(pool.answer) as served:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("FAAS_INGRESS", served.url)
        assert faas("pool", "create", "gpu-a").code == 0
        token = (cluster.secret_value("gpu-a-token", "FAAS_TOKEN") or b"").decode()
        (row,) = read(faas, "deploy", "--pool", "gpu-a", "app.py")
        assert (row["name"], row["revision"], row["path"]) == ("adds", "abcd1234", "/f/adds/")
        assert {(host, sent) for host, sent, _ in pool.asked} == {("gpu-a.default.example.com", f"Bearer {token}")}
        assert [path for _, _, path in pool.asked] == ["/_faas/control/place", "/_faas/control/place/sync"]

        client, prefix = S3Client("bucket"), "prod/pools/gpu-a/adds/"
        bundle = decode(client.get(prefix + MANIFEST) or b"")
        assert {key for key, _ in client.etags(prefix)} == {MANIFEST, *bundle.files}
        preparation = json.loads(client.get(prefix + "preparation.json") or b"")
        assert preparation["snapshot"] == f"s3://bucket/prod/adds@{S3Store('s3://bucket/prod').find('adds').digest}"
        (again,) = read(faas, "deploy", "--pool", "gpu-a", "app.py")
        assert again["sent_bytes"] == 0

        (folder / "app.py").write_text("import aid\n" + APP)
        pool.failure = "the bundle adds is not deployed: it is damaged"
        outcome = faas("deploy", "--pool", "gpu-a", "app.py")
        assert (outcome.code, "it is damaged" in outcome.err) == (1, True)
        pool.failure, pool.functions = None, []
        outcome = faas("deploy", "--pool", "gpu-a", "app.py")
        assert f"the pool found no function adds at {PLACE}" in outcome.err

        assert faas("delete", "Adds", "--pool", "gpu-a", "-y").out == "adds is deleted from gpu-a\n"
        assert client.etags(prefix) == []
        absent = faas("delete", "adds", "--pool", "gpu-a", "-y")
        assert (absent.code, "has no function 'adds'" in absent.err) == (2, True)
        pool.place = "/functions"
        assert "cannot be written from here" in faas("deploy", "--pool", "gpu-a", "app.py").err


def test_a_snapshot_that_is_pushed_can_be_pinned(
    faas: Faas, folder: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (folder / "app.py").write_text(APP)
    assert faas("snapshot", "create", "app.py").code == 0
    with s3_server.rclone(folder, "bucket") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        (pushed,) = read(faas, "snapshot", "push", "adds", "s3://bucket/prod", "--prefetch")
        assert Pins("s3://bucket/prod").read() == {"adds": pushed["digest"]}
        read(faas, "snapshot", "push", "adds", "s3://bucket/prod")
        assert Pins("s3://bucket/prod").read() == {"adds": pushed["digest"]}, "what is not said is not changed"
        read(faas, "snapshot", "push", "adds", "s3://bucket/prod", "--no-prefetch")
        read(faas, "snapshot", "push", "adds", "s3://bucket/prod", "--no-prefetch")
        assert Pins("s3://bucket/prod").read() == {}


def test_the_objects_of_a_node_cache_are_written_for_kubectl(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    outcome = faas("node-cache", "manifest", "--secret", "bucket", "--budget", "1Ti", "--node-selector", "gpu=yes")
    assert outcome.code == 0, outcome.err
    found = {document["kind"]: document for document in yaml.safe_load_all(outcome.out)}
    pod = found["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "yes"}
    assert {"name": "AWS_REGION", "value": "eu-central-1"} in pod["containers"][0]["env"]
    wrong = faas("node-cache", "manifest", "--node-selector", "gpu")
    assert wrong.code == 2
    assert "--node-selector gpu: has no value" in wrong.err
    monkeypatch.delenv("FAAS_STORE")
    assert faas("node-cache", "manifest").code == 2
