"""Snapshots: back in milliseconds, from a warm cache, a cold disk or a store, and held once by many processes.

python -m benchmarks.snapshot
"""

import sys

from benchmarks import area

MEASURES: dict[str, area.Measure] = {}

if __name__ == "__main__":
    sys.exit(area.main("snapshot", MEASURES))
