"""A function's image pushed to a registry, in a process of its own, as a deployment does it.

python -m benchmarks.pushing HOST FOLDER    prints what was sent, and how long that took, as JSON

FOLDER has the `bundle`, the `wheels` that pip may take, and the `cache`.
"""

import json
import sys
import time
from pathlib import Path

BASE, FUNCTION = "runtime:1", "function:1"
REQUIREMENT = "payload==1.0"


def main(host: str, folder: Path) -> None:
    """Push, and say what that took from before its imports on."""
    began = time.monotonic()
    from deploy.image import Connection, append, inspect
    from faas.deployment import runtime_image

    connection = Connection()
    base, runtime = inspect(f"{host}/{BASE}", connection=connection)
    cache = folder / "cache"
    lock = runtime_image.lock([REQUIREMENT], runtime, cache=cache)
    layers = runtime_image.layers_of_function(folder / "bundle", lock, runtime, cache=cache)
    pushed = append(base, f"{host}/{FUNCTION}", layers, connection=connection)
    _, image = inspect(pushed.image, connection=connection)
    found = {
        "image": pushed.image,
        "push_s": time.monotonic() - began,
        "sent_bytes": pushed.sent_bytes,
        "num_sent": pushed.num_sent,
        "bundle_bytes": layers[-1].size_bytes,
        "config_bytes": image.manifest.config.size_bytes,
        "image_bytes": sum(one.size_bytes for one in pushed.transfers),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
