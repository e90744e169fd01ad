"""The one-box platform: what its activator costs, how it wakes one function of many, what it keeps warm, what kills do.

python -m benchmarks.platform
"""

import sys

from benchmarks import area
from benchmarks.measures import activator, keep_alive, kills, many, replay, wake_peers

MEASURES = {
    "activator": activator.measure,
    "many": many.measure,
    "keep-alive": keep_alive.measure,
    "replay": replay.measure,
    "kills": kills.measure,
    "wake-peers": wake_peers.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("platform", MEASURES))
