"""What the functions of a platform are run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faas.platform.hosted import Hosted
from faas.platform.launcher import Launcher
from faas.preparation import Preparations
from faas.settings import Settings
from warmpool.pool import WarmPool

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Workplace:
    """What all functions share."""

    settings: Settings
    store: Preparations
    pool: WarmPool
    launcher: Launcher
    progress: Progress
    observe: Callable[[Hosted], object] = lambda _: None
    """Called when something of a function may have changed."""
