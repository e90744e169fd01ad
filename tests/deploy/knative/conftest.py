"""A stand-in for the API server, and a cluster object connected to it by a kubeconfig."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.knative import Cluster
from deploy.knative.connection import connect
from deploy.knative.rest import Rest

from .api_server import ApiServer
from .kubeconfig import write


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def rest(api: ApiServer, tmp_path: Path) -> Iterator[Rest]:
    made = Rest(connect(environ={"KUBECONFIG": write(tmp_path, api.url)}))
    yield made
    made.close()


@pytest.fixture
def cluster(rest: Rest) -> Cluster:
    return Cluster(rest)
