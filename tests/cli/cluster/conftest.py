from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.knative import Cluster
from tests import registry_server
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.knative.kubeconfig import write
from tests.deployment.given import cluster_of
from tests.registry_server import Registry


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FAAS_IMAGE", "FAAS_BASE_IMAGE", "FAAS_STORE", "FAAS_NAMESPACE", "FAAS_INGRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    """A stand-in for a cluster, which the environment names."""
    with ApiServer() as server:
        monkeypatch.setenv("KUBECONFIG", write(tmp_path, server.url))
        yield server


@pytest.fixture
def cluster(api: ApiServer, tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(api, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry_server.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running
