"""The main job: a real model woken from zero behind HTTP, batched under load, back to zero.

python -m benchmarks.main_job
"""

import sys

from benchmarks import area
from benchmarks.measures import batching, cold_start, echo, flat_model, memory, transitions, wakeups

MEASURES = {
    "cold-start": cold_start.measure,
    "memory": memory.measure,
    "batching": batching.measure,
    "flat-model": flat_model.measure,
    "echo": echo.measure_alone,
    "wakeups": wakeups.measure,
    "transitions": transitions.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("main_job", MEASURES))
