"""Secrets go in, and no value comes back."""

import base64
import json
from typing import Any

import pytest

from deploy import InvalidSpec
from deploy.errors import Conflict, Missing, NotOurs
from deploy.knative import Cluster
from deploy.knative.rest import Rest
from deploy.knative.secrets import put

from .answers import Answer, stale
from .api_server import ApiServer, always, once


def held(api: ApiServer, name: str = "hub") -> dict[str, bytes]:
    found: dict[str, Any] = api.do(lambda state: state.store.get("secrets", "default", name))
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


def test_put_creates_and_then_changes_the_keys_it_is_given(api: ApiServer, cluster: Cluster) -> None:
    assert cluster.put_secret("hub", {"TOKEN": b"a", "OTHER": b"\xff"}) == "created"
    assert cluster.put_secret("hub", {"TOKEN": b"b"}) == "changed"
    assert held(api) == {"TOKEN": b"b", "OTHER": b"\xff"}
    (found,) = cluster.secrets()
    assert (found.name, found.keys) == ("hub", ("OTHER", "TOKEN"))
    assert cluster.put_secret("hub", {"NEW": b"c"}, replace=True) == "changed"
    assert held(api) == {"NEW": b"c"}
    assert cluster.secrets()[0].keys == ("NEW",)


def test_no_value_is_ever_asked_for(api: ApiServer, cluster: Cluster) -> None:
    cluster.put_secret("hub", {"TOKEN": b"a"})
    cluster.put_secret("hub", {"TOKEN": b"b"})
    cluster.secrets()
    cluster.delete_secret("hub")
    asked = [call for call in api.state.calls if call.resource == "secrets" and call.verb != "delete"]
    assert asked
    assert all("as=PartialObjectMetadata" in call.headers["accept"] for call in asked)
    created = next(json.loads(call.body) for call in asked if call.verb == "create")
    assert created["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "faas"}


def test_k8_04_two_at_once_lose_nothing(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    exists = Answer(409, 'secrets "hub" already exists', reason="AlreadyExists")
    api.do(lambda state: state.faults.append(once(exists, verb="create", resource="secrets")))
    assert cluster.put_secret("hub", {"A": b"1"}) == "created"
    api.do(lambda state: state.faults.append(once(stale("secrets", "hub"), verb="patch", resource="secrets")))
    assert cluster.put_secret("hub", {"B": b"2"}) == "changed"
    assert held(api) == {"A": b"1", "B": b"2"}
    versions = [json.loads(call.body)["metadata"]["resourceVersion"] for call in api.called("patch", "secrets")]
    assert len(versions) == 2
    api.do(lambda state: state.faults.append(always(stale("secrets", "hub"), verb="patch", resource="secrets")))
    with pytest.raises(Conflict):
        put(rest, "default", "hub", {"B": b"2"}, wait=lambda _: None)


def test_a_secret_of_somebody_else_is_left_alone(api: ApiServer, cluster: Cluster) -> None:
    foreign = {"metadata": {"name": "hub", "namespace": "default"}, "data": {"A": "YQ=="}}
    api.do(lambda state: state.store.put("secrets", foreign))
    with pytest.raises(NotOurs, match="secret hub in default was made by something else"):
        cluster.put_secret("hub", {"A": b"b"})
    with pytest.raises(NotOurs):
        cluster.delete_secret("hub")
    assert cluster.secrets() == []
    assert held(api) == {"A": b"a"}


def test_what_cannot_be_a_secret_is_refused_here(api: ApiServer, cluster: Cluster) -> None:
    for name, values in (
        ("Hub", {"A": b"a"}),
        ("hub", {}),
        ("hub", {"a b": b"a"}),
        ("hub", {"A": b"x" * 2**20 + b"y"}),
    ):
        with pytest.raises(InvalidSpec):
            cluster.put_secret(name, values)
    with pytest.raises(Missing, match="faas secret list"):
        cluster.delete_secret("absent")
    assert api.called("create", "secrets") == []
