"""The one-box platform: what its activator costs, and how long a function at zero takes to wake.

python -m benchmarks.platform
"""

import sys

from benchmarks import area
from benchmarks.measures import activator, keep_alive, kills, wake_peers

MEASURES = {
    "activator": activator.measure,
    "keep-alive": keep_alive.measure,
    "kills": kills.measure,
    "wake-peers": wake_peers.measure,
}

if __name__ == "__main__":
    sys.exit(area.main("platform", MEASURES))
