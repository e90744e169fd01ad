"""Deploying to a cluster: what of it can be measured without one, and what takes a real one, where there is one.

python -m benchmarks.knative
"""

import sys

from benchmarks import area
from benchmarks.measures import cluster_deploy, cluster_pool, cluster_starts, second_push

MEASURES = {
    "second-push": second_push.measure,
    "cluster-deploy": cluster_deploy.measure,
    "cluster-starts": cluster_starts.measure,
    "cluster-pool": cluster_pool.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("knative", MEASURES))
