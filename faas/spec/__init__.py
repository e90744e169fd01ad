"""The settings of a function: small frozen policies, validated when made.

An unknown keyword is refused with the nearest right one; so is a value out of range, and a contradiction between two
values. Defaults and their reasons stand in `docs/settings.md`.
"""

from faas.spec.batching import Batching
from faas.spec.cache import Cache
from faas.spec.checks import policy, refuse_unknown
from faas.spec.function import FunctionSpec
from faas.spec.instance import KEEP_ALIVE_MODES, Calls, KeepAliveMode, Resources, Scaling
from faas.spec.padding import Pad
from faas.spec.queueing import QueuePolicy, Sequences
from faas.spec.rate_limit import RateLimit, check_methods
from faas.spec.selection import Selection
from faas.spec.snapshot import LOAD_MODES, LoadMode, Snapshot
from faas.spec.versions import Versions

__all__ = [
    "Batching",
    "Cache",
    "Calls",
    "FunctionSpec",
    "KEEP_ALIVE_MODES",
    "KeepAliveMode",
    "LOAD_MODES",
    "LoadMode",
    "Pad",
    "QueuePolicy",
    "RateLimit",
    "Resources",
    "Scaling",
    "Selection",
    "Sequences",
    "Snapshot",
    "Versions",
    "check_methods",
    "policy",
    "refuse_unknown",
]
