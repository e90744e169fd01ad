"""Whether what a deployment needs outside the cluster answers: registries and stores."""

from __future__ import annotations

from deploy.doctor import Reach
from deploy.image import Connection, ImageError, Reference, inspect
from deploy.image.errors import NotInRegistry
from faas.deployment.published import client_of
from faas.deployment.runtime_image import PYTHON_LABEL
from faas.errors import SettingError
from snapshot import SnapshotError
from snapshot.s3_address import S3Address

_NO_TAG = "faas-doctor"
_MAY_BE_PUSHED = "whether it takes an image only a push tells"


def image(base: str, connection: Connection) -> Reach:
    """Look at a runtime image."""
    try:
        _, found = inspect(base, connection=connection)
    except ImageError as error:
        return _failed(base, error)
    python = found.labels.get(PYTHON_LABEL)
    said = (
        "an image that faas image runtime has not made" if python is None else f"a runtime image with Python {python}"
    )
    return Reach(base, True, said)


def repository(prefix: str, connection: Connection) -> Reach:
    """Look whether a registry knows us below a prefix; whether it would take an image, only a push tells."""
    try:
        inspect(str(Reference.parse(f"{prefix}/{_NO_TAG}:none")), connection=connection)
    except NotInRegistry:
        return Reach(prefix, True, _MAY_BE_PUSHED)
    except ImageError as error:
        return _failed(prefix, error)
    return Reach(prefix, True, _MAY_BE_PUSHED)


def _failed(where: str, error: ImageError) -> Reach:
    """A registry's error, which says what to do; it begins with the repository, which `where` has."""
    return Reach(where, False, error.problem.partition(": ")[2] or error.problem, error.remedy)


def store(address: str) -> Reach:
    """Look whether a store can be read, and written to."""
    try:
        place, client = S3Address.parse(address), client_of(address)
        key = place.key(".bundles", _NO_TAG)
        client.put(key, b"")
        client.delete([key])
    except (SettingError, SnapshotError) as error:
        return Reach(address, False, str(error))
    return Reach(address, True, "it can be read and written")
