"""Snapshots: back in milliseconds, from a warm cache, a cold disk or a store, and held once by many processes.

python -m benchmarks.snapshot
"""

import sys

from benchmarks import area
from benchmarks.measures import cold_thaw, exported_start, pull, sharing, thaw

MEASURES = {
    "thaw": thaw.measure,
    "cold-thaw": cold_thaw.measure,
    "sharing": sharing.measure,
    "pull": pull.measure,
    "exported-start": exported_start.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("snapshot", MEASURES))
