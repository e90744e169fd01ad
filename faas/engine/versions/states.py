"""Where a version is in its life, as an instance sees it and as clients are told. TensorFlow Serving's states."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """What clients are told: the numbers are those of `ModelVersionStatus.State`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class Step(Enum):
    """What an instance itself tells apart."""

    NEW = "new"
    REQUESTED = "load requested"
    LOADING = "loading"
    RETRYING = "waits to be loaded again"
    READY = "ready"
    QUIESCING = "quiescing"
    UNLOADING = "unloading"
    DISABLED = "disabled"
    ERROR = "error"

    @property
    def state(self) -> State:
        """What clients are told of it."""
        return _STATES[self]

    @property
    def is_final(self) -> bool:
        """Whether nothing more becomes of it by itself."""
        return self in (Step.DISABLED, Step.ERROR)


_STATES: Final = {
    Step.NEW: State.START,
    Step.REQUESTED: State.START,
    Step.LOADING: State.LOADING,
    Step.RETRYING: State.LOADING,
    Step.READY: State.AVAILABLE,
    Step.QUIESCING: State.UNLOADING,
    Step.UNLOADING: State.UNLOADING,
    Step.DISABLED: State.END,
    Step.ERROR: State.END,
}
