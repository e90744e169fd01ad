"""The engine: how calls are joined into batches, and who is served in time.

python -m benchmarks.engine
"""

import sys

from benchmarks import area
from benchmarks.measures import echo, flat_model, minilm, misuse, promise, simulation, swap

MEASURES = {
    "simulation": simulation.measure,
    "promise": promise.measure,
    "minilm": minilm.measure,
    "flat-model": flat_model.measure,
    "echo": echo.measure,
    "misuse": misuse.measure,
    "swap": swap.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("engine", MEASURES))
