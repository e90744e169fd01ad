"""The engine: how calls are joined into batches, and who is served in time.

python -m benchmarks.engine
"""

import sys

from benchmarks import area
from benchmarks.measures import misuse, promise, simulation

MEASURES = {
    "simulation": simulation.measure,
    "promise": promise.measure,
    "misuse": misuse.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("engine", MEASURES))
