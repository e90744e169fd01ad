"""Instances as the platform sees them: processes that become ready, drain and end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from faas.instance_messages import Followed
from warmpool.process import Worker


class State(Enum):
    """The life of an instance."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(eq=False)
class Instance:
    """One process that serves one revision. Times are on the monotonic clock, `phases` durations, in seconds.

    `num_spared` of the example inputs did not run; `how` is "fork", "parked" or "exec"; `was_stopped` says that its end
    was asked for; `status` is the exit status once it has ended, negative for a signal. `unsaid` are the messages to
    send once it is connected, and `following` who waits for it to follow its function's versions.
    """

    id: str
    function: str
    revision: str
    address: str
    ordered_at: float
    num_spared: int = 0
    state: State = State.STARTING
    ready_at: float | None = None
    how: str = ""
    was_stopped: bool = False
    failure: str | None = None
    status: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)
    worker: Worker | None = None
    control: asyncio.StreamWriter | None = None
    unsaid: list[bytes] = field(default_factory=list)
    following: dict[int, asyncio.Future[Followed | None]] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int | None:
        """The process, once there is one."""
        return None if self.worker is None else self.worker.pid

    @property
    def serves(self) -> bool:
        """Whether it takes or will take calls."""
        return self.state in (State.STARTING, State.READY)


OnChange = Callable[[Instance], None]
