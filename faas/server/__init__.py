"""The HTTP side of one instance."""

from typing import Final

KEEP_ALIVE_S: Final = 75.0
"""Longer than the idle time-outs of common load balancers, so that it is they who close."""
