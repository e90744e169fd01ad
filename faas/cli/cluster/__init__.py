"""What commands do where a cluster is meant. Imported by then, and not before: the Kubernetes client is large."""
