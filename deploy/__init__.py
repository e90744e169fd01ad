"""From a plain description of a service to the objects that a Knative cluster is given.

A `ServiceSpec` says what to run (image, command, resources, scaling numbers, timeouts); `deploy.manifest.service` turns
it into a Knative Service and `deploy.advice.warnings` says what a cluster at its default settings would refuse or do
otherwise than expected. Both are pure: no clock, no network, no cluster. The package knows nothing of functions, and
importing it loads neither the Kubernetes client nor a YAML library.
"""

from deploy.errors import DeployError, InvalidName, InvalidQuantity, InvalidSpec, MissingLibrary
from deploy.spec import Probes, Resources, Scaling, SecretRef, ServiceSpec, Timeouts
from deploy.volume import SnapshotVolume

__all__ = [
    "DeployError",
    "InvalidName",
    "InvalidQuantity",
    "InvalidSpec",
    "MissingLibrary",
    "Probes",
    "Resources",
    "Scaling",
    "SecretRef",
    "ServiceSpec",
    "SnapshotVolume",
    "Timeouts",
]
