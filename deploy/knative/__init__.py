"""Knative through the Kubernetes API: bring a service into a cluster, see how it does, change it, take it out.

`Cluster.connect(...)` is the way in. Everything is synchronous and takes and returns plain values; nothing here is
imported by an instance, and the Kubernetes client is loaded when the first cluster is connected to.
"""

from deploy.knative.cluster import Cluster

__all__ = ["Cluster"]
