"""What keeps snapshots on nodes: the documents, and what they may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import InvalidName, InvalidQuantity, InvalidSpec, SecretRef
from deploy.manifest import to_yaml
from deploy.node_cache import NodeCacheSpec, documents, label

GOLDEN = Path(__file__).parent / "golden" / "node_cache" / "usual.yaml"
SPEC = NodeCacheSpec(
    image="ghcr.io/acme/runtime:1",
    store="s3://models/prod",
    budget="200Gi",
    env={"AWS_ENDPOINT_URL": "https://s3.acme.test"},
    secrets=(SecretRef(name="bucket"), SecretRef(name="hub", key="token", env="HF_TOKEN")),
    node_selector={"acme.test/pool": "gpu"},
)


def by_kind(spec: NodeCacheSpec = SPEC) -> dict[str, Any]:
    return {document["kind"]: document for document in documents(spec)}


def test_golden() -> None:
    written = "---\n".join(to_yaml(document) for document in documents(SPEC))
    assert written == GOLDEN.read_text()
    assert list(yaml.safe_load_all(written)) == documents(SPEC)


def test_the_rights_are_to_read_and_label_nodes_and_no_more() -> None:
    found = by_kind()
    assert found["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}]
    (subject,) = found["ClusterRoleBinding"]["subjects"]
    assert subject == {
        "kind": "ServiceAccount",
        "name": found["ServiceAccount"]["metadata"]["name"],
        "namespace": "faas-system",
    }
    assert found["ClusterRoleBinding"]["roleRef"]["name"] == found["ClusterRole"]["metadata"]["name"]


def test_only_who_gives_the_folder_away_is_root_and_may_do_that_alone() -> None:
    pod = by_kind()["DaemonSet"]["spec"]["template"]["spec"]
    (owner,), (cache,) = pod["initContainers"], pod["containers"]
    assert owner["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
    assert cache["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (cache["securityContext"]["runAsNonRoot"], cache["securityContext"]["runAsUser"]) == (True, 65532)
    for container in (owner, cache):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert (
        "nodeSelector"
        not in by_kind(NodeCacheSpec(image="a/b:1", store="s3://b"))["DaemonSet"]["spec"]["template"]["spec"]
    )


def test_labels_can_be_labels() -> None:
    assert label("0123456789abcdef") == "faas.dev/snapshot.0123456789abcdef"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"image": "A B"}, InvalidSpec),
        ({"store": "/models"}, InvalidSpec),
        ({"namespace": "Team"}, InvalidName),
        ({"budget": "lots"}, InvalidQuantity),
        ({"memory": "1"}, InvalidQuantity),
        ({"folder": "snapshots"}, InvalidSpec),
        ({"env": {"A B": "c"}}, InvalidSpec),
        ({"node_selector": {"a b": "c"}}, InvalidSpec),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        NodeCacheSpec(**{"image": "a/b:1", "store": "s3://b"} | given)
