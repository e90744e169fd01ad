"""Lengths that items are padded up to, so that a model sees few shapes. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Sequence


def bucket_of(length: int, buckets: Sequence[int]) -> int | None:
    """Return the smallest of `buckets`, which rise, that holds an item of `length`; None if none does."""
    at = bisect.bisect_left(buckets, length)
    return buckets[at] if at < len(buckets) else None
