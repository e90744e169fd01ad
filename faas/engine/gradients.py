"""Torch's gradient mode, which belongs to a thread: off for handlers unless asked for, without importing torch."""

from __future__ import annotations

import sys


def set_gradients(enabled: bool) -> None:
    """Set the mode of the thread that calls. Nothing happens where torch has not been imported (fully)."""
    torch = sys.modules.get("torch")
    is_enabled = getattr(torch, "is_grad_enabled", None)
    if is_enabled is not None and is_enabled() != enabled:
        torch.set_grad_enabled(enabled)  # type: ignore[union-attr]
