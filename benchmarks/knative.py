"""Deploying to a cluster: what of it can be measured without one.

python -m benchmarks.knative
"""

import sys

from benchmarks import area
from benchmarks.measures import second_push

MEASURES = {
    "second-push": second_push.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("knative", MEASURES))
