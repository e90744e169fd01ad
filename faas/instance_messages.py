"""What a platform and its instances say to each other: who an instance is to be, and what becomes of it.

Apart from what an instance is made of, which a platform never loads: it starts in a good third less time for it.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance serves: the code that `target` names, the frozen state, the environment variables of both.

    `digest` is the snapshot's identity. Without a snapshot each instance runs `setup()`. `later` are the packages that
    the code imports and the frozen state does without: they are imported when they are used. `rehearse` lets a hot
    zygote answer the example inputs, once for all its instances. `versions` is where numbered versions of the state
    are, a folder or s3://bucket/prefix/NAME; then it is they that are served.
    """

    id: str
    target: str
    function: str
    snapshot: str | None = None
    digest: str | None = None
    env: dict[str, str] = {}
    later: tuple[str, ...] = ()
    rehearse: bool = False
    versions: str | None = None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance is to be.

    `ordered_at` is the moment the platform asked for it, on the monotonic clock that all processes of a machine share.
    `num_spared` of the example inputs, from the first on, need not run where there is a frozen state: a call that waits
    does what they are for.
    """

    revision: Revision
    instance_id: str
    ordered_at: float
    num_spared: int = 0
    grace_s: float = 30.0


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Calls are served from now on. `phases` are the seconds that each part of the start took."""

    phases: dict[str, float]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The instance is of no use, and ends."""

    reason: str


class Leaving(msgspec.Struct, frozen=True, tag="leaving"):
    """The instance wants no more calls: it got a signal, or has served as many as it may. It ends when let go."""


class Imported(msgspec.Struct, frozen=True, tag="imported"):
    """Modules that calls have loaded and that the zygote did not have."""

    modules: list[str]


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    """From the platform: look at the versions now, and answer `Followed`, with this `number`, when that is done."""

    number: int


class Followed(msgspec.Struct, frozen=True, tag="followed"):
    """That has been done. `versions` is all that is known of them then; `failure` why they cannot be followed."""

    number: int
    versions: dict[str, Any] = {}
    failure: str | None = None


Event = Ready | Failed | Leaving | Imported | Followed
EVENTS = msgspec.json.Decoder(Event)
