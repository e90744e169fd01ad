from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.knative import Cluster
from tests import registry_server, s3_server
from tests.deploy.knative.api_server import ApiServer
from tests.deployment.given import cluster_of
from tests.registry_server import Registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry_server.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve S3, and give the address of a bucket there."""
    with s3_server.rclone(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield "s3://bucket"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: ApiServer, tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(api, tmp_path) as made:
        yield made
