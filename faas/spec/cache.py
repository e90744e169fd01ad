"""How answers are kept for inputs that come again."""

from __future__ import annotations

from faas.quantities import parse_bytes
from faas.spec.checks import policy


@policy
class Cache:
    """An instance keeps answers, `max_bytes` of them in all, and gives them again for equal inputs.

    `max_bytes` is a Kubernetes quantity. For functions whose answer depends on nothing but their input.
    """

    max_bytes: str | int = "32Mi"

    def __post_init__(self) -> None:
        parse_bytes(self.max_bytes, "Cache.max_bytes")

    @property
    def num_bytes(self) -> int:
        """What the answers and their keys may take."""
        return parse_bytes(self.max_bytes, "Cache.max_bytes")
