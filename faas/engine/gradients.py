"""Torch's gradient mode, which belongs to a thread: off for handlers unless asked for, without importing torch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from faas.on_import import once_imported


def set_gradients(enabled: bool) -> None:
    """Set the mode of the thread that calls. Nothing happens where torch has not been imported (fully)."""
    torch = sys.modules.get("torch")
    is_enabled = getattr(torch, "is_grad_enabled", None)
    if is_enabled is not None and is_enabled() != enabled:
        torch.set_grad_enabled(enabled)  # type: ignore[union-attr]


def off_once_imported(is_handlers: Callable[[int], bool]) -> None:
    """Have gradients off in the very call in which a handler imports torch.

    `is_handlers` tells, of the identifier of a thread, whether handlers run there.
    """

    def turn_off(torch: Any) -> None:
        if is_handlers(threading.get_ident()):
            torch.set_grad_enabled(False)

    if "torch" not in sys.modules:
        once_imported("torch", turn_off)
