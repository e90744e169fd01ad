"""Tensors to a GPU. Where there is none it says so, measures nothing and ends with status 0.

python -m benchmarks.gpu_load
"""

import sys
from collections.abc import Sequence

from benchmarks import area
from benchmarks.device_loading import why_not
from benchmarks.measures import gpu_load

MEASURES = {
    "warm": gpu_load.warm,
    "cold": gpu_load.cold,
    "first": gpu_load.first,
    "registered": gpu_load.registered,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says, and return the exit status."""
    if reason := why_not():
        print(f"gpu_load: nothing was measured: {reason}")
        return 0
    return area.main("gpu_load", MEASURES, arguments)


if __name__ == "__main__":
    sys.exit(main())
