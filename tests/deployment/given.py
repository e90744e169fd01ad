"""Functions as they are packed, without any code having been run."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.image import SCRATCH, Connection, Keychain, append
from deploy.knative import Cluster
from deploy.knative.connection import connect
from deploy.knative.rest import Rest
from faas.bundle import Bundle
from faas.bundle.making import plain
from faas.bundle.manifest import CODE, MANIFEST, File
from faas.bundle.reading import file_digest
from faas.deployment import runtime_image
from faas.deployment.packed import Packed
from faas.deployment.plan import Places, Shipping, plan
from faas.deployment.published import Means
from faas.spec import FunctionSpec
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.knative.kubeconfig import write

VERSION = "1-py3"
CONNECTION = Connection(keychain=Keychain({}))


def bundled(folder: Path, code: str = "x = 1\n", **spec: Any) -> Bundle:
    """Write a bundle of one small file."""
    path = folder / CODE / "app.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    made = Bundle(
        name=spec.get("name", "embed"),
        target="app:Embed",
        python=platform.python_version(),
        faas="0.1.0",
        requirements=spec.get("requirements", ()),
        spec=plain(FunctionSpec(**{"name": "embed", **spec})),
        limits={"target_inputs": 8, "max_inputs": 16, "max_queue": 160},
        files={f"{CODE}/app.py": File(file_digest(path), path.stat().st_size)},
    )
    (folder / MANIFEST).write_bytes(made.encode())
    return made


def packed(folder: Path, places: Places, code: str = "x = 1\n", **spec: Any) -> Packed:
    """Pack a function that has no state."""
    made = bundled(folder, code, **spec)
    how = plan(places, made.name, Shipping(), base=made.spec["image"], version=VERSION)
    return Packed(made, folder, how, made.digest[:8], None)


def means(folder: Path, step: Callable[[str], None] = lambda text: None) -> Means:
    """Publish with layers in `folder`."""
    return Means(CONNECTION, folder / "cache", lambda transfer: None, step)


def push_base(repository: str, packages: dict[str, str] | None = None, version: str = VERSION) -> str:
    """Push a runtime image that has nothing in it but what it says of itself; return its name."""
    name = f"{repository}/faas-runtime:{version}"
    append(SCRATCH, name, changes=runtime_image.changes(packages or {}), connection=CONNECTION)
    return name


def cluster_of(api: ApiServer, folder: Path) -> Cluster:
    """Connect to a stand-in; to be closed."""
    return Cluster(Rest(connect(environ={"KUBECONFIG": write(folder, api.url)})))
