"""A fresh interpreter to the first embedding, with the handler of `handlers.embed` and nothing else of the framework.

    python -m benchmarks.plain.embed STARTED_AT

STARTED_AT is when the caller started this process, on the monotonic clock. Prints one JSON object: the milliseconds of
each phase. The decorator's own import is a phase of its own, since a plain script has none: callers leave it out.
"""

import json
import sys
import time

entered_at = time.monotonic()

from benchmarks.functions.plain import PlainEmbed  # noqa: E402 (timed)

decorated_at = time.monotonic()

import torch  # noqa: E402 (timed)
from transformers import AutoModel, AutoTokenizer  # noqa: E402, F401 (timed; setup() uses them)

imported_at = time.monotonic()

handler = PlainEmbed()
handler.setup()
set_up_at = time.monotonic()

with torch.inference_mode():
    [vector] = handler.predict(["a sentence to warm up with"])
answered_at = time.monotonic()

assert len(vector) == 384
phases_s = {
    "interpreter": entered_at - float(sys.argv[1]),
    "decorator": decorated_at - entered_at,
    "imports": imported_at - decorated_at,
    "setup": set_up_at - imported_at,
    "answer": answered_at - set_up_at,
}
print(json.dumps({name: 1e3 * duration_s for name, duration_s in phases_s.items()}), flush=True)
